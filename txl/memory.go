package txl

// Memory holds the past hidden states that a segment attends to: for each layer the last rows of
// that layer's input, time-major [Len,B,D]. No gradient flows into it. It is plain data: copy or
// store Len and Layers.
type Memory struct {
	Len    int         // rows in use, at most Config.MemLen
	Layers [][]float32 // one buffer of MemLen*B*D elements a layer; the first Len*B*D are in use
}

// NewMemory returns an empty memory for batches of the given size.
func NewMemory(c Config, batch int) *Memory { return NewMemoryAbove(c, batch, 0) }

// NewMemoryAbove returns an empty memory without the lowest `alike` layers, whose input is that
// of another network, see NewBeside.
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

// CopyFrom copies the layers that both memories have from a memory of the same configuration and
// batch.
func (m *Memory) CopyFrom(o *Memory) {
	m.Len = o.Len
	for l := range m.Layers {
		copy(m.Layers[l], o.Layers[l])
	}
}
