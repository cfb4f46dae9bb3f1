package train

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/strictjson"
	"github.com/lmserve/lmserve/weights"
)

// ErrCheckpoint is wrapped by every error about a checkpoint's content.
var ErrCheckpoint = errors.New("train: checkpoint")

// A checkpoint is a weights file. The metadata contains, as JSON, the run's identity and progress.
// The tensors are all arrays of the current phase.
const (
	checkpointKind  = "lmserve.checkpoint"
	checkpointValue = "1"
	keyRun          = "lmserve.run"
	keyPosition     = "lmserve.position"
	keyPhase        = "lmserve.phase"
	keyNumerics     = "lmserve.numerics"
	keyHash         = "lmserve.hash" // weights.File.Hash without this key
)

const lastName = "last.safetensors"

// bestName returns the file name of the phase's best checkpoint, judged by validation.
func bestName(phase string) string { return phase + "-best.safetensors" }

// checkpoint is the saved state of a run, from which the run can resume.
type checkpoint struct {
	path string
	file *weights.File
	err  error // the first error of a get method; later calls of get methods do nothing
}

// array names a slice of the weights or of an optimizer's state.
type array struct {
	name string
	data []float32
}

func newCheckpoint() *checkpoint {
	return &checkpoint{file: &weights.File{
		Metadata: map[string]string{checkpointKind: checkpointValue},
	}}
}

// put stores a copy of an array.
func (c *checkpoint) put(name string, data []float32) {
	c.file.Tensors = append(c.file.Tensors, weights.F32Tensor(name, []int{len(data)}, data))
}

func (c *checkpoint) put64(name string, data []float64) {
	raw := make([]byte, 0, 8*len(data))
	for _, v := range data {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(v))
	}
	c.file.Tensors = append(c.file.Tensors,
		weights.Tensor{Name: name, DType: weights.F64, Shape: []int{len(data)}, Data: raw})
}

func (c *checkpoint) putBytes(name string, data []byte) {
	c.file.Tensors = append(c.file.Tensors,
		weights.Tensor{Name: name, DType: weights.U8, Shape: []int{len(data)}, Data: data})
}

func (c *checkpoint) putAll(arrays []array) {
	for _, a := range arrays {
		c.put(a.name, a.data)
	}
}

func (c *checkpoint) getAll(arrays []array) {
	for _, a := range arrays {
		c.get(a.name, a.data)
	}
}

func (c *checkpoint) putJSON(key string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // impossible: the values are structs of finite numbers and strings
	}
	c.file.Metadata[key] = string(text)
}

// get copies a stored array to dst. If the array is missing or has another length, get sets c.err.
func (c *checkpoint) get(name string, dst []float32) {
	t := c.tensor(name, weights.F32, len(dst))
	if t == nil {
		return
	}
	values, err := t.Float32s()
	if err != nil {
		c.err = fmt.Errorf("%w %s: %w", ErrCheckpoint, c.path, err)
		return
	}
	copy(dst, values)
}

func (c *checkpoint) get64(name string, dst []float64) {
	t := c.tensor(name, weights.F64, len(dst))
	if t == nil {
		return
	}
	for i := range dst {
		dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(t.Data[8*i:]))
	}
}

// getBytes returns the stored bytes with a name. If there are not exactly `size` bytes, getBytes
// sets c.err and returns nil.
func (c *checkpoint) getBytes(name string, size int) []byte {
	t := c.tensor(name, weights.U8, size)
	if t == nil {
		return nil
	}
	return t.Data
}

// getCompanion replaces *counts by the stored companion, which must have the same settings. After
// an error, which is kept in c.err, *counts is unchanged.
func (c *checkpoint) getCompanion(name string, counts **companion.State) {
	set := (*counts).Settings()
	data := c.getBytes(name, int(companion.EncodedBytes(set)))
	if c.err != nil {
		return
	}
	read, err := companion.Decode(set, data)
	if c.failWith(err); err == nil {
		*counts = read
	}
}

// tensor returns the tensor with the given name, type and number of elements. If the checkpoint has
// no such tensor, the method sets c.err and returns nil.
func (c *checkpoint) tensor(name string, d weights.DType, size int) *weights.Tensor {
	if c.err != nil {
		return nil
	}
	t, ok := c.file.Tensor(name)
	if !ok {
		c.fail("tensor %q is missing, expected %s with %d elements", name, d, size)
		return nil
	}
	if t.DType != d || t.Elements() != size {
		c.fail("tensor %q is %s%v, expected %s with %d elements", name, t.DType, t.Shape, d, size)
		return nil
	}
	return t
}

// getJSON decodes a metadata value, and refuses unknown fields. An error is kept in c.err.
func (c *checkpoint) getJSON(key string, into any) {
	if c.err != nil {
		return
	}
	if err := strictjson.Unmarshal([]byte(c.file.Metadata[key]), into); err != nil {
		c.fail("metadata %s: %v", key, err)
	}
}

func (c *checkpoint) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w %s: %s", ErrCheckpoint, c.path, fmt.Sprintf(format, args...))
	}
}

func (c *checkpoint) failWith(err error) {
	if err != nil {
		c.fail("%v", err)
	}
}
