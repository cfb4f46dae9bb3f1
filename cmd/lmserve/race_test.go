//go:build race

package main

var buildFlags = []string{"build", "-race"} // a race ends up among the complaints
