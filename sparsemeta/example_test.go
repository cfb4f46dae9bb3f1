package sparsemeta_test

import (
	"fmt"
	"log"

	"github.com/lmserve/lmserve/sparsemeta"
)

// Meta-learners write the fast weights of two matrices from the gradient of a chunk.
func Example() {
	learner := &sparsemeta.Learner{
		Branches: []sparsemeta.Branch{{Name: "a", Size: 600}, {Name: "b", Size: 400}},
		Settings: sparsemeta.TwoBankSettings(),
	}
	// The meta-learners are untrained; package metatrain trains them.
	learner.Init(sparsemeta.InitHe(), 1)
	if err := learner.Validate(); err != nil {
		log.Fatal(err)
	}
	x := sparsemeta.NewExec(1)
	defer x.Close()

	tables := learner.Compile()
	banks := len(learner.Settings.Gammas)
	state := sparsemeta.NewState(learner.Branches, banks, 7, sparsemeta.Float32)
	gradient, fast := make([]float32, learner.Size()), make([]float32, learner.Size())
	for i := range gradient {
		gradient[i] = 1e-3 * float32(i%7-3)
	}
	written := state.Update(x, tables, learner.Settings, nil, gradient, fast)
	fmt.Printf("about half of the elements of both banks are written: %t\n", written > 900 &&
		written < 1100)
	same := true
	for i, m := range fast { // The fast weights are the sum of M over the banks.
		same = same && m == state.M[0].At(i)+state.M[1].At(i)
	}
	fmt.Println("the sum of the banks:", same)
	fmt.Println("there are fast weights:", state.RMS(x.Vectors) > 0)
	// Output:
	// about half of the elements of both banks are written: true
	// the sum of the banks: true
	// there are fast weights: true
}

// A table agrees with its network within the table's error bound.
func ExampleTable() {
	learner := &sparsemeta.Learner{Branches: []sparsemeta.Branch{{Name: "a", Size: 1}},
		Settings: sparsemeta.PaperSettings()}
	learner.Init(sparsemeta.InitHe(), 3)
	network := &learner.Phi[0][0]
	table := sparsemeta.Compile(network)
	worst := 0.
	for _, x := range []float32{-10, -0.02, -1e-5, 0, 3e-4, 1, 1e30} {
		worst = max(worst, float64(table.At(x))-network.Eval(float64(x)),
			network.Eval(float64(x))-float64(table.At(x)))
	}
	fmt.Println(worst <= table.ErrorBound())
	// Output:
	// true
}

// Dynamic evaluation is gradient descent with decay towards the initial weights.
func ExampleDynamic() {
	x := sparsemeta.NewExec(1)
	defer x.Close()
	d := sparsemeta.NewDynamic([]sparsemeta.Branch{{Name: "a", Size: 2}},
		sparsemeta.DynamicSettings{Rate: 0.5, Decay: 0.25}, nil)
	d.Update(x, []float32{1, -2})
	d.Update(x, []float32{0, 0})
	fmt.Println(d.M)
	// Output:
	// [-0.375 0.75]
}

// A continuous cache raises the probability of the symbol that followed a similar state.
func ExampleCache() {
	x := sparsemeta.NewExec(1)
	defer x.Close()
	cache := sparsemeta.NewCache(sparsemeta.CacheSettings{Size: 10, Theta: 4, Lambda: 0.5}, 2)
	// Symbol 5 followed the state (3, 0), and symbol 6 followed (0, 3).
	cache.Append([]float32{3, 0, 0, 3}, []int32{5, 6})
	nll := []float32{4.6} // the model's -ln p(5), with p = 1/100
	cache.Mix(x, []float32{3, 0}, []int32{5}, nll)
	fmt.Printf("%.1f\n", nll[0])
	// Output:
	// 0.7
}
