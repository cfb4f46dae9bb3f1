package main

import (
	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// precisionFlag gives a command --precision, whose value is checked before the command runs.
func precisionFlag(c *cobra.Command, p *kernel.Precision) {
	c.Flags().StringVar((*string)(p), "precision", string(kernel.Float32), "of matrix products: float32, or bf16 (needs AVX512-BF16 or AMX): faster, rounded to 8 bits")
	c.PreRunE = func(*cobra.Command, []string) error {
		if err := (kernel.Arithmetic{Precision: *p}).Validate(); err != nil {
			return usagef("--precision: %w", err)
		}
		return nil
	}
}
