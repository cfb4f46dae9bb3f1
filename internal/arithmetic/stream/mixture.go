package stream

import (
	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/txl"
)

// This file makes fast weights learn from the loss of the mixture of network and companion. The
// gradient of a byte's loss depends on the companion's state when the byte was scored. So a stream
// keeps eight numbers for each byte, called slopes, until the chunk is full. The rest of the
// gradient follows from the network's outputs, which the segment has or recomputes.

// LogitGradients writes to gradients [n,256] the derivatives of the losses of a chunk's targets [n]
// with respect to the logits. seg must contain the chunk. The loss is share times the mixture's
// loss plus 1-share times the network's own loss. slopes [n,8] come from companion.Scratch.Slopes.
func LogitGradients(
	x *companion.Scratch, seg *txl.Segment, targets []int32, slopes []float32, share float32,
	gradients []float32,
) {
	vocab := len(gradients) / len(targets)
	for i, id := range targets {
		row, of := gradients[i*vocab:(i+1)*vocab], slopes[i*slopesOfByte:]
		seg.LogProbs(i, 0, row)
		x.Gradient(row, byte(id), (*companion.Slopes)(of), share, row)
	}
}

// ofMixture sets step.Logits to the gradients, with respect to the logits, of the loss that
// LogitGradients describes, if the stream learns from the mixture's loss. targets [n] and slopes
// [n,8] belong to the whole chunk.
func (w *Worker) ofMixture(s *Stream, step *Step, targets []int32, slopes []float32) {
	if s.slopes == nil {
		return
	}
	if n := s.Settings.Chunk * w.model.LM.Config.Vocab; len(w.logits) != n {
		w.logits = make([]float32, n)
	}
	step.Logits = w.logits
	LogitGradients(w.counts, w.seg, targets, slopes, w.model.Mixture, step.Logits)
}
