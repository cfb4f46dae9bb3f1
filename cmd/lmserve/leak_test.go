package main

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// home is a folder of the tests' own; it goes when they have ended.
var home string

func TestMain(m *testing.M) {
	// A home of their own keeps the tests away from the user's files, such as keys
	// and configurations.
	var err error
	home, err = os.MkdirTemp("", "lmserve-home")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("XDG_STATE_HOME", home)
	os.Setenv("XDG_CONFIG_HOME", home)
	code := m.Run()
	os.RemoveAll(home)
	http.DefaultClient.CloseIdleConnections() // of the tests themselves
	if err = goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
