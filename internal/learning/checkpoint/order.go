package checkpoint

import (
	"slices"
	"strings"
)

// Order is the order of the cluster columns in an adaptive softmax. The softmax's head has a column
// for each frequent token, followed by a column for each cluster of rare tokens.
type Order string

// The reference implementation for PyTorch and this program use Descending. The reference
// implementation for TensorFlow and Hugging Face's library use Ascending.
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

const huggingModelType = "transfo-xl"

// orderOf returns the order of the cluster columns, judged by the checkpoint's layout, and a text
// with the evidence.
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

func (c *Checkpoint) firstWith(prefix string) string {
	i := slices.IndexFunc(c.tensors, func(t Tensor) bool {
		return strings.HasPrefix(strings.TrimPrefix(t.Name, parallelPrefix), prefix)
	})
	if i < 0 {
		return ""
	}
	return c.tensors[i].Name
}

// clusterTensors names the weights and biases of the clusters in the softmax's head. Each row of
// these tensors belongs to one cluster.
var clusterTensors = []string{"crit.cluster_weight", "crit.cluster_bias"}

// ordered reverses the rows of the cluster tensors if they are in ascending order. This program
// needs descending order.
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

func reverseRows[T any](data []T, rows int) []T {
	out := make([]T, 0, len(data))
	row := len(data) / rows
	for at := len(data) - row; at >= 0 && row > 0; at -= row {
		out = append(out, data[at:at+row]...)
	}
	return out
}
