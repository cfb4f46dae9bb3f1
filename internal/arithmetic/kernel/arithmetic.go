package kernel

import (
	"fmt"
	"strings"
)

// Arithmetic sets the precision and the instruction set of an Exec. The zero value means Float32
// with the widest instructions of this machine.
type Arithmetic struct {
	Precision    Precision    // precision of the matrix products; "" means Float32
	Instructions Instructions // the zero value means the widest set; tests also use others
}

// machine is the widest instruction set of this machine.
var machine = detect()

// Validate returns an error if this machine cannot compute in the arithmetic. BF16 needs a
// processor with AVX512-BF16, or with AMX tiles and a system that permits their use. BF16 with
// portable instructions works on every machine, but it is slow and meant for tests.
func (a Arithmetic) Validate() error {
	switch {
	case a.Instructions > machine:
		return fmt.Errorf("instructions are %v, expected at most %v on this machine",
			a.Instructions, machine)
	case a.Precision == BF16 && a.Instructions != Portable:
		if _, err := kernelsBF16(); err != nil {
			return fmt.Errorf("bf16 needs the instructions AVX512-BF16, or AMX-TILE and AMX-BF16 "+
				"under Linux; %w", err)
		}
	case a.Precision != BF16 && a.Precision != Float32 && a.Precision != "":
		return fmt.Errorf("precision is %q, expected %s or %s", string(a.Precision), Float32, BF16)
	}
	return nil
}

// Numerics returns the name of the arithmetic. Every function of the package gives bit-identical
// results on two machines of one architecture that return the same name.
func (a Arithmetic) Numerics() string {
	name := a.instructions().micro().name
	if a.Precision == BF16 {
		return name + suffixBF16
	}
	return name
}

const suffixBF16 = "+" + string(BF16)

// PrecisionOf returns the precision of an arithmetic from the arithmetic's name; see Numerics.
func PrecisionOf(numerics string) Precision {
	if strings.HasSuffix(numerics, suffixBF16) {
		return BF16
	}
	return Float32
}

// Vectors returns the vector functions of the arithmetic, for callers without an Exec.
func (a Arithmetic) Vectors() Vectors { return Vectors{a.instructions()} }

func (a Arithmetic) instructions() Instructions {
	if a.Instructions == Widest {
		return machine
	}
	return a.Instructions
}
