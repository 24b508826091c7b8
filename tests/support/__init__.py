"""Parts that tests of several areas share."""
