package checkpoint

import (
	"slices"
	"strings"
)

// Order is the order of the clusters' columns after the head's tokens in an adaptive softmax.
type Order string

// The orders. In the reference implementation for PyTorch, and in this program, the columns are in
// descending order. In the reference for TensorFlow and Hugging Face's library they are ascending.
const (
	Descending Order = "descending"
	Ascending  Order = "ascending"
)

// Other returns Descending for Ascending, and Ascending otherwise.
func (o Order) Other() Order {
	if o == Ascending {
		return Descending
	}
	return Ascending
}

// huggingModelType is the model type of a Transformer-XL in Hugging Face's config.json.
const huggingModelType = "transfo-xl"

// orderOf returns the order of a checkpoint's layout, and how the layout was recognized.
func (c *Checkpoint) orderOf() (Order, string) {
	if c.hugging {
		return Ascending, huggingConfigFile + " has Hugging Face's model type, " + huggingModelType
	}
	prefixed := c.firstWith(huggingPrefix)
	if prefixed != "" && c.firstWith(softmaxPrefix) != "" {
		return Ascending, quote(prefixed) + " is a tensor's name in Hugging Face's layout"
	}
	return Descending, "the names are not those of Hugging Face's layout"
}

// firstWith returns the name of the first tensor with a prefix, "" if there is none.
func (c *Checkpoint) firstWith(prefix string) string {
	i := slices.IndexFunc(c.tensors, func(t Tensor) bool {
		return strings.HasPrefix(strings.TrimPrefix(t.Name, parallelPrefix), prefix)
	})
	if i < 0 {
		return ""
	}
	return c.tensors[i].Name
}

// clusterTensors are the tensors whose rows are the clusters' columns of the head.
var clusterTensors = []string{"crit.cluster_weight", "crit.cluster_bias"}

// ordered reverses the clusters' columns if they do not have this program's order.
func ordered(tensors []Tensor, have Order) {
	for i, t := range tensors {
		if have == Ascending && slices.Contains(clusterTensors, t.Name) {
			tensors[i] = reversed(t)
		}
	}
}

func reversed(t Tensor) Tensor {
	load := t.Load
	t.Load = func() ([]byte, error) {
		data, err := load()
		if err != nil || len(t.Shape) == 0 || t.Shape[0] == 0 {
			return data, err
		}
		return reverseRows(data, t.Shape[0]), nil
	}
	return t
}

// reverseRows returns a copy of rows of equal length, the last first.
func reverseRows[T any](data []T, rows int) []T {
	out := make([]T, 0, len(data))
	row := len(data) / rows
	for at := len(data) - row; at >= 0 && row > 0; at -= row {
		out = append(out, data[at:at+row]...)
	}
	return out
}
