// Command wcst plays the Wisconsin card sorting test with Sparse-MetaNet and with agents that learn by
// gradients alone.
package main

import "fmt"

func main() {
	for _, m := range []method{{Name: "meta", Solver: "adam", Rate: .0003, Fast: true}, {Name: "meta", Solver: "adam", Rate: .001, Fast: true}, {Name: "off", Solver: "adam", Rate: .001, Offline: true}, {Name: "on", Solver: "adam", Rate: .001}} {
		r, err := run(m, 20, 1)
		fmt.Println(m, err)
		for _, t := range r {
			fmt.Print(t, " ")
		}
		fmt.Println()
	}
}
