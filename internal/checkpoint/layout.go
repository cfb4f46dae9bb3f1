package checkpoint

import (
	"fmt"
	"slices"
)

// slot is a tensor of the reference implementation's state dict.
type slot struct {
	name  string
	shape []int
	// twin names the tensor of which this one is a copy in a model whose weights are tied; "": none.
	twin string
}

// layoutOf lists the tensors of a configuration in the order in which a converted file has them;
// those with a twin stand beside it.
func layoutOf(c Config) []slot {
	parts := embeddingSlots(c)
	heads := []int{c.NHead, c.DHead}
	for _, name := range attentionBiases {
		if !c.UntieR {
			parts = append(parts, slot{name: name, shape: heads})
		}
	}
	for i := range c.NLayer {
		for _, name := range attentionBiases {
			if c.UntieR {
				parts = append(parts, slot{name: layerBias(i, name), shape: heads})
			}
		}
		parts = append(parts, layerSlots(c, i)...)
	}
	return append(parts, softmaxSlots(c)...)
}

// clustersOf gives the borders of the clusters: 0, the cutoffs, and the size of the vocabulary.
func clustersOf(c Config) []int { return slices.Concat([]int{0}, c.Cutoffs, []int{c.Vocab}) }

func embeddingSlots(c Config) (parts []slot) {
	if !c.tablePerCluster() {
		parts = append(parts, slot{name: "word_emb.emb_layers.0.weight", shape: []int{c.Vocab, c.DEmbed}})
		if c.DEmbed != c.DModel {
			parts = append(parts, slot{name: "word_emb.emb_projs.0", shape: []int{c.DModel, c.DEmbed}})
		}
		return parts
	}
	borders := clustersOf(c)
	for i := range len(borders) - 1 {
		width := widthOf(c.DEmbed, c.DivVal, i)
		parts = append(
			parts,
			slot{name: fmt.Sprintf("word_emb.emb_layers.%d.weight", i),
				shape: []int{borders[i+1] - borders[i], width}},
			slot{name: fmt.Sprintf("word_emb.emb_projs.%d", i), shape: []int{c.DModel, width}},
		)
	}
	return parts
}

func layerSlots(c Config, i int) []slot {
	attention, forward := fmt.Sprintf("layers.%d.dec_attn.", i), fmt.Sprintf("layers.%d.pos_ff.", i)
	d, hd := c.DModel, c.NHead*c.DHead
	return []slot{
		{name: attention + "qkv_net.weight", shape: []int{3 * hd, d}},
		{name: attention + "r_net.weight", shape: []int{hd, d}},
		{name: attention + "o_net.weight", shape: []int{d, hd}},
		{name: attention + "layer_norm.weight", shape: []int{d}},
		{name: attention + "layer_norm.bias", shape: []int{d}},
		{name: forward + "CoreNet.0.weight", shape: []int{c.DInner, d}},
		{name: forward + "CoreNet.0.bias", shape: []int{c.DInner}},
		{name: forward + "CoreNet.3.weight", shape: []int{d, c.DInner}},
		{name: forward + "CoreNet.3.bias", shape: []int{d}},
		{name: forward + "layer_norm.weight", shape: []int{d}},
		{name: forward + "layer_norm.bias", shape: []int{d}},
	}
}

func softmaxSlots(c Config) (parts []slot) {
	if tails := len(c.Cutoffs); tails > 0 {
		parts = append(parts, slot{name: "crit.cluster_weight", shape: []int{tails, c.DEmbed}},
			slot{name: "crit.cluster_bias", shape: []int{tails}})
	}
	borders := clustersOf(c)
	for i := range len(borders) - 1 {
		table, width, size := i, widthOf(c.DEmbed, c.DivVal, i), borders[i+1]-borders[i]
		if !c.tablePerCluster() {
			table, size = 0, c.Vocab
		}
		if table == i {
			parts = append(
				parts,
				slot{fmt.Sprintf("crit.out_layers.%d.weight", i), []int{size, width},
					fmt.Sprintf("word_emb.emb_layers.%d.weight", i)},
				slot{name: fmt.Sprintf("crit.out_layers.%d.bias", i), shape: []int{size}},
			)
		}
		if c.tablePerCluster() || c.DEmbed != c.DModel {
			parts = append(parts,
				slot{outProjection(i), []int{c.DModel, width}, fmt.Sprintf("word_emb.emb_projs.%d", table)})
		}
	}
	return parts
}

// outProjection names the projection of a cluster in front of the softmax.
func outProjection(cluster int) string { return fmt.Sprintf("crit.out_projs.%d", cluster) }
