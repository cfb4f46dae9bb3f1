package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"go.uber.org/zap"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/session"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/server/limits"
)

const (
	// memoryConstant is what a server may take beside its budget, its model, its workers and its
	// connections: what requests have in memory whole, and 64 MiB for the program, the writing of the
	// database, and what the collector has not found yet.
	memoryConstant = limits.MemoryMax + 64<<20
	// memoryUnit is what the sum of all is rounded up to, so that a start gives the number of the one
	// before.
	memoryUnit = 16 << 20
	// connectionBytes is the memory of a connection and of the request on it: buffers, stacks, TLS.
	connectionBytes = 64 << 10
)

// memoryHelp says what --memory-budget is a part of.
var memoryHelp = fmt.Sprintf(`In all, the process takes the budget, the models, %dM, %dK for each connection, and for each
thread a worker of each model (as large as its chunks, 327M at most with the embedded model)
and %dM for files. Its log says how much that is. The collector is told to keep to it, unless GOMEMLIMIT
is set. See "Memory" in docs/operations.md.`,
	memoryConstant>>20, connectionBytes>>10, session.FileBytes>>20)

// checkBudget refuses a budget that no session of one of the models would fit into.
func (f *serveFlags) checkBudget(models []*model.Model) error {
	for _, m := range models {
		if err := f.checkBudgetOf(m); err != nil {
			return err
		}
	}
	return nil
}

func (f *serveFlags) checkBudgetOf(m *model.Model) error {
	least, err := session.MemoryMin(m)
	if err != nil || f.budget == 0 || int64(f.budget) >= least {
		return err
	}
	const unit = 1 << 20
	least = (least + unit - 1) / unit * unit
	return usageError{fmt.Errorf("--memory-budget is %s, expected at least %s: so much memory the "+
		"state of one session of model %s needs, and what a completion copies of it",
		&f.budget, sizeOf(least), m.ID())}
}

// memoryMost is the memory that the process may take in all. It is asked when the models are
// loaded, and nothing else is. Each thread may have a worker of each.
func (f *serveFlags) memoryMost(models []*model.Model, connections int) int64 {
	budget := int64(f.budget)
	if budget == 0 {
		budget = session.DefaultMemoryBytes()
	}
	runtime.GC()
	var loaded runtime.MemStats
	runtime.ReadMemStats(&loaded)
	thread := int64(session.FileBytes)
	for _, m := range models {
		thread += stream.WorkerBytes(m)
	}
	threads := int64(f.model.threads) * thread
	most := budget + int64(loaded.HeapAlloc) + threads + memoryConstant +
		int64(connections)*connectionBytes
	return (most + memoryUnit - 1) / memoryUnit * memoryUnit
}

// limitMemory makes the collector work harder where the process comes near to what it may take.
func limitMemory(most int64, log *zap.Logger) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(most)
	}
	log.Info("memory", zap.Int64("most_bytes", most))
}
