package kernel

import "fmt"

// Arithmetic sets precision and instructions of an Exec. The zero value is Float32 with the
// widest instructions of this machine.
type Arithmetic struct {
	Precision    Precision    // precision of the matrix products; "" means Float32
	Instructions Instructions // the zero value means the widest; tests also use others
}

// machine is the widest set of instructions that this machine has.
var machine = detect()

// Validate returns an error if this machine lacks the arithmetic. BF16 needs a processor with
// AVX512-BF16, or with AMX tiles on a system that permits their use. BF16 with portable
// instructions works on every machine, but is slow and meant for tests.
func (a Arithmetic) Validate() error {
	switch {
	case a.Instructions > machine:
		return fmt.Errorf("instructions are %v, expected %v or less on this machine",
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

// Numerics names the arithmetic. Two machines of one architecture with the same name get the same
// bits from every function of the package.
func (a Arithmetic) Numerics() string {
	name := a.instructions().micro().name
	if a.Precision == BF16 {
		return name + "+" + string(BF16)
	}
	return name
}

// Vectors returns the vector functions of the arithmetic, for callers without an Exec.
func (a Arithmetic) Vectors() Vectors { return Vectors{a.instructions()} }

func (a Arithmetic) instructions() Instructions {
	if a.Instructions == Widest {
		return machine
	}
	return a.Instructions
}
