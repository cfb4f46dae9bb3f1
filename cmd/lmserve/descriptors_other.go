//go:build !unix

package main

func descriptorsMax() int { return descriptorsUnknown }
