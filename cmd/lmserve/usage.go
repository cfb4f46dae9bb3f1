package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// usageError marks an error in how the command was called.
type usageError struct{ error }

// exactly is cobra.ExactArgs with an error that says what arguments were expected.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError{fmt.Errorf("found %d arguments, expected %s (see '%s --help')", len(args), what, c.CommandPath())}
		}
		return nil
	}
}
