package main

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	home, err := os.MkdirTemp("", "lmserve-home") // tests leave alone what the user keeps, such as keys
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("XDG_STATE_HOME", home)
	code := m.Run()
	os.RemoveAll(home)
	http.DefaultClient.CloseIdleConnections() // of the tests themselves
	if err = goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
