package txl

// cluster is a range of the vocabulary whose embeddings have one width. The first cluster is the
// head, and has the most frequent tokens; the others are the tails. A plain model is a head alone.
type cluster struct {
	lo, hi  int // tokens lo to hi-1
	width   int // of an embedding, E_i
	emb     int // tensor of the embeddings, [*,E_i]
	out     int // tensor of the softmax's weights, [*,E_i]: emb where they are tied
	bias    int // tensor of the softmax's bias
	first   int // the first token's place in all three
	proj    int // tensor that makes hidden states of embeddings [D,E_i]; none without
	outProj int // tensor that takes hidden states back to that width [D,E_i]; none without
}

// none stands for a tensor that the layout lacks.
const none = -1

// size is the number of the cluster's tokens.
func (k *cluster) size() int { return k.hi - k.lo }

// vocabulary is the part of a layout that knows tokens: the embeddings, and the softmax over them.
//
// Adaptive input and adaptive softmax (Grave et al. 2017, Baevski and Auli 2019) divide the
// vocabulary into clusters. A token's input is its embedding, projected to the width of the model.
// Its probability is the softmax over the head if it belongs to the head. The head also has a
// column for each tail, with weights of its own; a tail token's probability is that of the
// tail's column, times the softmax over the tail. The columns stand in reverse: the last one is
// that of the first tail.
type vocabulary struct {
	clusters                   []cluster
	clusterWeight, clusterBias int // of the tails' columns; none without tails
}

// tails is the number of clusters but the head.
func (v *vocabulary) tails() int { return len(v.clusters) - 1 }

// headWidth is the number of the head's columns: its tokens, then the tails.
func (v *vocabulary) headWidth() int { return v.clusters[0].size() + v.tails() }

// clusterOf is the number of a token's cluster.
func (v *vocabulary) clusterOf(token int32) int {
	i := 0
	for int(token) >= v.clusters[i].hi {
		i++
	}
	return i
}

// headColumn is the column of the head which a token's probability needs.
func (v *vocabulary) headColumn(token int32) int {
	if i := v.clusterOf(token); i > 0 {
		return v.headWidth() - i
	}
	return int(token)
}

// members appends to dst the positions of the tokens that belong to the cluster.
func (k *cluster) members(dst []int32, tokens []int32) []int32 {
	for at, token := range tokens {
		if int(token) >= k.lo && int(token) < k.hi {
			dst = append(dst, int32(at))
		}
	}
	return dst
}

// part is the cluster's share of a gradient with width elements a token, nil if it is not wanted.
func (k *cluster) part(g []float32, width int) []float32 {
	if g == nil {
		return nil
	}
	return g[k.first*width : (k.first+k.size())*width]
}

// embeddingIn is a token's embedding in the cluster's share of a table.
func (k *cluster) embeddingIn(table []float32, token int32) []float32 {
	at := (int(token) - k.lo) * k.width
	return table[at : at+k.width]
}
