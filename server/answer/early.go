package answer

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/problem"
)

// Early returns a complete HTTP answer, head and body, for a request that net/http refuses before
// any handler runs. The parameter reason is the message of net/http, such as "431 Request Header
// Fields Too Large". The answer closes the connection.
func (a *Problems) Early(remote, reason string) []byte {
	doc := problem.Early(reason).Problem
	doc.RequestID = uuid.NewString()
	a.refused(problem.Name(doc.Type))
	a.log.Info("request refused before it was read", zap.String("remote", remote),
		zap.String("reason", reason), zap.Int("status", doc.Status),
		zap.String("request_id", doc.RequestID))
	body, err := json.Marshal(doc)
	if err != nil { // impossible, because strings and integers always encode as JSON
		panic(err)
	}
	body = append(body, '\n')
	answer := http.Response{
		StatusCode: doc.Status, ProtoMajor: 1, ProtoMinor: 1, Close: true,
		Header: http.Header{
			"Content-Type":  {contract.MediaProblem},
			"Cache-Control": {"no-store"},
			HeaderRequestID: {doc.RequestID},
		},
		ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	}
	var b bytes.Buffer
	if err := answer.Write(&b); err != nil { // impossible, because b is in memory
		panic(err)
	}
	return b.Bytes()
}
