#!/bin/bash
# Runs the program; it says itself where it has nothing to run on.
exec "$1"
