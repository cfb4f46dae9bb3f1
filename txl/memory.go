package txl

// Memory contains the past hidden states that a segment attends to: for each layer the last rows of
// the layer's input, time-major [Len,B,D]. No gradient flows into a Memory. A Memory is plain data:
// to copy or store it, copy or store Len and Layers.
type Memory struct {
	Len int // rows in use, at most Config.MemLen
	// Layers has for each layer a buffer of MemLen*B*D elements. The first Len*B*D elements are in
	// use.
	Layers [][]float32
}

// NewMemory returns an empty memory for batches of the given size.
func NewMemory(c Config, batch int) *Memory { return NewMemoryAbove(c, batch, 0) }

// NewMemoryAbove returns an empty memory for a segment from NewBeside. It omits the lowest `alike`
// layers, because both networks have the same memory there.
func NewMemoryAbove(c Config, batch, alike int) *Memory {
	m := &Memory{Layers: make([][]float32, c.NLayer)}
	size := c.MemLen * batch * c.DModel
	arena := make([]float32, (c.NLayer-alike)*size)
	for l := range m.Layers[alike:] {
		m.Layers[alike+l] = arena[l*size : (l+1)*size : (l+1)*size]
	}
	return m
}

// Reset empties the memory.
func (m *Memory) Reset() { m.Len = 0 }

// CopyFrom copies memory o. Both memories must have the same configuration and batch size. Layers
// that either memory omits are skipped.
func (m *Memory) CopyFrom(o *Memory) {
	m.Len = o.Len
	for l := range m.Layers {
		copy(m.Layers[l], o.Layers[l])
	}
}
