package session

import "github.com/lmserve/lmserve/internal/serving/storage"

// Stats is what a Manager has at a moment.
type Stats struct {
	Sessions int // hot and cold, those being made included
	Hot      int // those whose states are in memory, or are about to be
	Waiting  int // requests that wait for a session's state or a worker
	// of states, of models but the default, and of the text of a store in memory
	MemoryBytes    int64
	MemoryBytesMax int64 // Options.MaxMemoryBytes
	// Disk is what the store takes of the disk, and what is left; nil where the store is on none.
	Disk      *storage.Usage
	DiskAlarm bool // too little of the disk is left, see DiskAlarm
	Models    []ModelStats
}

// ModelStats is what there is of a model at a moment.
type ModelStats struct {
	ID           string // ModelInfo.ID
	States       int    // in memory, of sessions on the model
	WeightsBytes int64  // memory of the weights; 0 while they are not in memory
}

// Stats tells what the Manager has now. It costs about as much as looking at the file system.
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
