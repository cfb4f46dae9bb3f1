package txl

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/weights"
)

var update = flag.Bool("update", false,
	"write internal/lab/conformance/testdata/adasoftmax_*.safetensors instead of comparing "+
		"with them")

// conformanceFiles maps the name of each adasoftmax file to its configuration. Each file has a
// different form of adaptive input and softmax, and batches of two streams.
var conformanceFiles = map[string]Config{
	// All clusters share one table, which is narrower than the model.
	"one_table": {
		NLayer: 2, DModel: 10, NHead: 2, DHead: 4, DInner: 12, Vocab: 23, SegLen: 7, MemLen: 9,
		PreLNorm: true, ClampLen: 4, DEmbed: 6, Cutoffs: []int{7, 9, 15}, DivVal: 1,
		TieProjs: []bool{true, false, true, false},
	},
	// All clusters share one table as wide as the model. There are no projections, as in wt103-16l.
	"unprojected": {
		NLayer: 1, DModel: 8, NHead: 2, DHead: 4, DInner: 10, Vocab: 19, SegLen: 6, MemLen: 6,
		Cutoffs: []int{6, 10}, DivVal: 1,
	},
	// Each cluster has a table and projections. All tables have one width, which exceeds the
	// model's.
	"cluster_tables": {
		NLayer: 1, DModel: 6, NHead: 1, DHead: 5, DInner: 9, Vocab: 15, SegLen: 8, MemLen: 5,
		SameLength: true, DEmbed: 7, Cutoffs: []int{4, 8}, DivVal: 1, ClusterTables: true,
		TieProjs: []bool{false, true, false},
	},
	// There is one cluster. The projection of the softmax differs from the projection of the input.
	"one_cluster": {
		NLayer: 1, DModel: 6, NHead: 2, DHead: 3, DInner: 8, Vocab: 11, SegLen: 5, MemLen: 7,
		ClampLen: 3, DEmbed: 9, DivVal: 2, TieProjs: []bool{false},
	},
	// The softmax has a separate table for each cluster.
	"own_tables": {
		NLayer: 1, DModel: 8, NHead: 2, DHead: 4, DInner: 10, Vocab: 19, SegLen: 7, MemLen: 6,
		PreLNorm: true, Cutoffs: []int{5, 11}, DivVal: 2, TieProjs: []bool{false, true, false},
		UntieSoftmax: true,
	},
	// The softmax has one separate table, which all clusters share.
	"own_table": {
		NLayer: 1, DModel: 8, NHead: 2, DHead: 3, DInner: 9, Vocab: 15, SegLen: 6, MemLen: 8,
		DEmbed: 6, Cutoffs: []int{4, 9}, DivVal: 1, TieProjs: []bool{true, false, true},
		UntieSoftmax: true,
	},
}

const conformanceBatch, conformanceSegments = 2, 3

// The adasoftmax files in internal/lab/conformance contain float64 results of the reference
// implementation in this package's tests. `go test -run AdasoftmaxFiles -update` rewrites the
// files, with the gradients of all weights. Without -update, the test compares only a few gradients
// of each weight.
func TestAdasoftmaxFilesAreOfTheReference(t *testing.T) {
	for name, c := range conformanceFiles {
		t.Run(name, func(t *testing.T) {
			path := fmt.Sprintf("../internal/lab/conformance/testdata/adasoftmax_%s.safetensors",
				name)
			if *update {
				f, _ := conformanceFile(t, c, math.MaxInt)
				require.NoError(t, weights.WriteFile(path, f, weights.WriteOptions{}))
				return
			}
			made, gradients := conformanceFile(t, c, 3)
			stored, err := weights.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, made.Metadata, stored.Metadata)
			require.Len(t, stored.Tensors, len(made.Tensors))
			for _, tensor := range made.Tensors {
				other, ok := stored.Tensor(tensor.Name)
				require.True(t, ok, tensor.Name)
				require.Equal(t, tensor.Shape, other.Shape, tensor.Name)
				if tensor.DType == weights.I32 {
					require.Equal(t, tensor.Data, other.Data, tensor.Name)
					continue
				}
				got, err := tensor.Float32s()
				require.NoError(t, err)
				want, err := other.Float32s()
				require.NoError(t, err)
				for _, j := range gradients.compared(tensor.Name, len(got)) {
					require.InDelta(t, want[j], got[j], 1e-6, "%s[%d]", tensor.Name, j)
				}
			}
		})
	}
}

// sample maps a tensor's name to the indices of the gradient elements that were computed.
type sample map[string][]int

// compared returns the indices of a tensor's computed gradient elements. A tensor that is not in
// the sample has all its elements computed.
func (s sample) compared(tensor string, size int) []int {
	if at, ok := s[tensor]; ok {
		return at
	}
	all := make([]int, size)
	for j := range all {
		all[j] = j
	}
	return all
}

// conformanceFile computes a file, with gradients for at most `most` elements of each weight.
func conformanceFile(t *testing.T, c Config, most int) (*weights.File, sample) {
	m, _ := randomModel(t, c, 77)
	ref, length := newReference(m, nil), conformanceSegments*c.SegLen
	streams := [][]int32{randomTokens(length+1, c.Vocab, 12), randomTokens(length+1, c.Vocab, 13)}
	f := &weights.File{Metadata: conformanceMetadata(c)}
	for i, tensor := range m.Layout.Tensors {
		f.Tensors = append(f.Tensors, weights.F32Tensor(tensor.Name, tensor.Shape, m.Tensor(i)))
	}
	mem := make([][][][]float64, conformanceBatch)
	top := make([][][]float64, conformanceBatch)
	for b := range mem {
		mem[b] = make([][][]float64, c.NLayer)
	}
	var loss func() float64
	for at := 0; at < length; at += c.SegLen {
		prefix := fmt.Sprintf("seg%d.", at/c.SegLen)
		shape := []int{c.SegLen, conformanceBatch}
		before := slices.Clone(mem)
		loss = func() (sum float64) {
			for b, s := range streams {
				logp, _ := ref.forward(s[at:at+c.SegLen], before[b])
				for i := range logp {
					sum -= logp[i][s[at+i+1]] / float64(conformanceBatch*c.SegLen)
				}
			}
			return sum
		}
		var nll [][]float32
		for b, s := range streams {
			logp, _ := ref.forward(s[at:at+c.SegLen], mem[b])
			var h [][]float64
			h, mem[b] = ref.hidden(s[at:at+c.SegLen], mem[b])
			top[b] = append(top[b], h...)
			top[b] = top[b][max(0, len(top[b])-c.MemLen):]
			nll = append(nll, make([]float32, c.SegLen))
			for i := range logp {
				nll[b][i] = float32(-logp[i][s[at+i+1]])
			}
		}
		f.Tensors = append(f.Tensors,
			tokensTensor(prefix+"input", shape, interleave(cut(streams, at, at+c.SegLen))),
			tokensTensor(prefix+"target", shape, interleave(cut(streams, at+1, at+c.SegLen+1))),
			weights.F32Tensor(prefix+"nll", shape, interleave(nll)))
		for l := range c.NLayer + 1 {
			name := fmt.Sprintf("%smem.%d", prefix, l)
			f.Tensors = append(f.Tensors, memoryTensor(name, c, l, mem, top))
		}
	}
	gradients := sample{}
	for _, tensor := range m.Layout.Tensors {
		g, name := make([]float32, tensor.Size), "grad."+tensor.Name
		for j := 0; j < tensor.Size; j += max(1, tensor.Size/most) {
			g[j] = float32(slope(&ref.w[tensor.Off+j], loss))
			gradients[name] = append(gradients[name], j)
		}
		f.Tensors = append(f.Tensors, weights.F32Tensor(name, tensor.Shape, g))
	}
	return f, gradients
}

func tokensTensor(name string, shape []int, ids []int32) weights.Tensor {
	data, err := binary.Append(nil, binary.LittleEndian, ids)
	if err != nil {
		panic(err) // impossible: the numbers have fixed sizes
	}
	return weights.Tensor{Name: name, DType: weights.I32, Shape: shape, Data: data}
}

func cut(streams [][]int32, lo, hi int) (out [][]int32) {
	for _, s := range streams {
		out = append(out, s[lo:hi])
	}
	return out
}

// memoryTensor returns the memory of layer l, [rows,batch,D]. For l = NLayer it returns the output
// of the last layer.
func memoryTensor(
	name string, c Config, l int, mem [][][][]float64, top [][][]float64,
) weights.Tensor {
	of := func(b int) [][]float64 {
		if l == c.NLayer {
			return top[b]
		}
		return mem[b][l]
	}
	var values []float32
	for i := range of(0) {
		for b := range mem {
			for _, v := range of(b)[i] {
				values = append(values, float32(v))
			}
		}
	}
	return weights.F32Tensor(name, []int{len(of(0)), len(mem), c.DModel}, values)
}

// conformanceMetadata returns the metadata of a file; docs/conformance.md lists the keys.
func conformanceMetadata(c Config) map[string]string {
	metadata := map[string]string{"kind": "adasoftmax"}
	for key, value := range map[string]any{
		"n_layer": c.NLayer, "d_model": c.DModel, "n_head": c.NHead, "d_head": c.DHead,
		"d_inner": c.DInner, "vocab": c.Vocab,
		"mem_len": c.MemLen, "clamp_len": c.ClampLen, "same_length": c.SameLength,
		"pre_lnorm": c.PreLNorm, "layer_norm_eps": LayerNormEps,
		"d_embed": cmp.Or(c.DEmbed, c.DModel), "cutoffs": append([]int{}, c.Cutoffs...),
		"div_val": c.DivVal, "tie_projs": append([]bool{}, c.TieProjs...),
		"segments": conformanceSegments, "segment_len": c.SegLen, "batch": conformanceBatch,
	} {
		text, err := json.Marshal(value)
		if err != nil {
			panic(err) // impossible: values are numbers, booleans and lists of them
		}
		metadata[key] = string(text)
	}
	if c.UntieSoftmax {
		metadata["untie_softmax"] = "true"
	}
	return metadata
}
