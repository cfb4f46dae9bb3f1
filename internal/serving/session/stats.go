package session

import "github.com/lmserve/lmserve/internal/serving/storage"

// Stats is the state of a Manager at one moment.
type Stats struct {
	Sessions int // all sessions, including those being created
	Hot      int // sessions whose states are in memory, or are being recovered
	Waiting  int // number of requests that wait for a session's state or for a worker
	// memory of states, of models except the default model, and of text in memory
	MemoryBytes    int64
	MemoryBytesMax int64 // the value of Options.MaxMemoryBytes
	// Disk is the disk space that the store uses, and the free space; nil if the store is not on a
	// disk.
	Disk      *storage.Usage
	DiskAlarm bool // whether too little disk space is free; see Manager.DiskAlarm
	Models    []ModelStats
}

// ModelStats is the state of a model at one moment.
type ModelStats struct {
	ID           string
	States       int   // number of the model's states in memory
	WeightsBytes int64 // memory of the weights; 0 if they are not in memory
}

// Stats returns the Manager's state now. It costs about one call to the file system.
func (mg *Manager) Stats() Stats {
	memory := mg.engine.budget
	s := Stats{
		Sessions: mg.index.registry.Places(), Hot: memory.Holders(),
		Waiting: mg.engine.waiting.length(), MemoryBytes: memory.Used(),
		MemoryBytesMax: memory.Max(),
		DiskAlarm:      mg.DiskAlarm() != nil,
	}
	if m, ok := mg.engine.store.(storage.Metered); ok {
		usage := m.Usage()
		s.Disk = &usage
	}
	for _, m := range mg.engine.models {
		about := ModelStats{ID: m.id, States: m.memory.Users()}
		if m.current() != nil {
			about.WeightsBytes = m.size()
		}
		s.Models = append(s.Models, about)
	}
	return s
}
