package codec

import (
	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// encodeShadow is what a client is told of what there is between a session and a shadow of it. The
// tokens of the models of both may be words.
func encodeShadow(s session.Shadow, followedWords, shadowWords bool) api.Shadow {
	told := api.Shadow{
		ID: s.ID, Offset: s.Offset, BehindBytes: s.Behind, Name: orNil(s.Name),
		Model: orNil(s.Model),
		Error: errorText(s.Err),
	}
	if c := s.Compared; c != nil {
		followed, shadow := Encoder{words: followedWords}, Encoder{words: shadowWords}
		told.Compared = &api.Comparison{
			Offset:             c.Offset,
			Session:            followed.measures(c.Followed),
			Shadow:             shadow.measures(c.Shadow),
			SessionBitsPerByte: bitsPerByte(c.Followed),
			ShadowBitsPerByte:  bitsPerByte(c.Shadow),
		}
		if a, b := told.Compared.SessionBitsPerByte, told.Compared.ShadowBitsPerByte; a != nil &&
			b != nil {
			told.Compared.Difference = new(*b - *a)
		}
	}
	return told
}

// bitsPerByte is the measure by which models of all kinds compare: of a model of words that of the
// words that it knows. A model of bytes knows every byte.
func bitsPerByte(t session.Tally) *float64 {
	return per(t.Bits-t.UnknownBits, t.Bytes-t.UnknownBytes)
}
