package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/kernel"
)

// precisionFlag gives a command --precision, which holds from before it computes.
func precisionFlag(c *cobra.Command) {
	name := c.Flags().String("precision", string(kernel.Float32), "of matrix products: float32, or bf16 (needs AMX): faster, rounded to 8 bits")
	c.PreRunE = func(*cobra.Command, []string) error {
		if err := kernel.SetPrecision(kernel.Precision(*name)); err != nil {
			return usageError{fmt.Errorf("--precision: %w", err)}
		}
		return nil
	}
}
