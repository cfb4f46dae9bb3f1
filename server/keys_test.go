package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/contract"
)

// testKeys is a keys file with its ring. The maps give the id and the token for the name of a key.
type testKeys struct {
	*keys.Ring
	path  string
	id    map[string]string
	token map[string]string
}

func newTestKeys(t *testing.T, list ...keys.Key) *testKeys {
	t.Helper()
	k := &testKeys{path: filepath.Join(t.TempDir(), "keys.json"), id: map[string]string{},
		token: map[string]string{}}
	for _, want := range list {
		made, token := keys.New(want.Name, time.Now())
		made.Expires, made.Revoked, made.Admin, made.Limits = want.Expires, want.Revoked,
			want.Admin, want.Limits
		k.id[want.Name], k.token[want.Name] = made.ID, token
		k.update(t, func(list []keys.Key) ([]keys.Key, error) { return append(list, made), nil })
	}
	var err error
	k.Ring, err = keys.OpenRing(k.path, func(error) {})
	require.NoError(t, err)
	return k
}

func (k *testKeys) update(t *testing.T, change func([]keys.Key) ([]keys.Key, error)) {
	t.Helper()
	require.NoError(t, keys.UpdateFile(k.path, change))
}

func (k *testKeys) revoke(t *testing.T, name string) {
	t.Helper()
	k.update(t, func(list []keys.Key) ([]keys.Key, error) {
		list, _, err := keys.Revoke(list, name, time.Now())
		return list, err
	})
}

func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1),
		Subject:     pkix.Name{CommonName: "lmserve test"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(raw)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: private}, pool
}

func newTLSRig(t *testing.T, o Options) *rig {
	t.Helper()
	sessions, err := session.NewManager(smallModel(t, 1), session.Options{Threads: 2})
	require.NoError(t, err)
	cert, pool := certificate(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	o.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	return newRigOn(t, sessions, o, l, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}})
}

// public lists the operations that need no key. The list is written by hand, so that a mistake in
// the contract cannot make a route public unnoticed.
var public = []string{
	"GET /", "GET /page.css", "GET /page.js",
	"GET /docs", "GET /healthz", "GET /readyz", "GET /openapi.yaml",
}

// sample is a request generated from the OpenAPI contract.
type sample struct{ method, path, media, accept, body string }

func (s sample) String() string {
	return fmt.Sprintf("%s %s %s -> %s", s.method, s.path, s.media, s.accept)
}

func (s sample) send(g *rig, id, token string) *http.Response {
	g.t.Helper()
	headers := []string{answer.HeaderRequestID, "the-same"}
	for name, value := range map[string]string{"Content-Type": s.media, "Accept": s.accept,
		"Authorization": token} {
		if value != "" {
			headers = append(headers, name, value)
		}
	}
	var body io.Reader
	if s.media != "" {
		body = strings.NewReader(s.body)
	}
	return g.do(s.method, strings.ReplaceAll(s.path, "{id}", id), body, headers...)
}

// samples generates requests to every operation of the contract: one for each media type of the
// body and of the answer, and HEAD for each GET.
func samples(t *testing.T) (all []sample) {
	paths := document(t).Paths.Map()
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		for _, name := range placeholders(path) {
			require.Contains(t, []string{"id", "model"}, name, "%s: say here what stands for "+
				"{%s}, and test who may name it", path, name)
		}
		for method, op := range paths[path].Operations() {
			s := sample{method: method, path: path + requiredQuery(t,
				slices.Concat(paths[path].Parameters, op.Parameters))}
			bodies := []sample{s}
			if op.RequestBody != nil {
				bodies = nil
				for media, content := range op.RequestBody.Value.Content {
					s.media, s.body = media, "x"
					if media == contract.MediaJSON {
						text, err := json.Marshal(example(t, content.Schema.Value))
						require.NoError(t, err)
						s.body = string(text)
					}
					if media == contract.MediaNDJSON {
						s.body = "{}"
					}
					bodies = append(bodies, s)
				}
			}
			for _, s := range bodies {
				for _, s.accept = range append(contract.OffersOf(op), "") {
					all = append(all, s)
				}
			}
			if method == http.MethodGet {
				s.method = http.MethodHead
				all = append(all, s)
			}
		}
	}
	return all
}

func placeholders(path string) (names []string) {
	for part := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

func requiredQuery(t *testing.T, parameters openapi3.Parameters) (query string) {
	for _, p := range parameters {
		if p.Value.In == "query" && p.Value.Required {
			query += fmt.Sprintf("&%s=%v", p.Value.Name, example(t, p.Value.Schema.Value))
		}
	}
	return strings.Replace(query, "&", "?", 1)
}

// example returns a value that the schema accepts. Objects have as few fields as possible.
func example(t *testing.T, s *openapi3.Schema) any {
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.OneOf) > 0:
		return example(t, s.OneOf[0].Value)
	case s.Type.Is("object"):
		object := map[string]any{}
		for _, name := range s.Required {
			object[name] = example(t, s.Properties[name].Value)
		}
		// The backward order chooses "text" before "base64".
		for _, name := range slices.Backward(slices.Sorted(maps.Keys(s.Properties))) {
			if len(object) < int(s.MinProps) {
				object[name] = example(t, s.Properties[name].Value)
			}
		}
		return object
	case s.Type.Is("array"):
		return []any{example(t, s.Items.Value)}
	case s.Type.Is("boolean"):
		return false
	case s.Type.Is("string"):
		return strings.Repeat("x", max(1, int(s.MinLength)))
	case s.Min != nil:
		return *s.Min
	}
	require.Fail(t, "say here what a value of this schema looks like")
	return nil
}

// No request reveals a session of another key. The answer equals the answer for an unknown id, and
// nothing changes. The owner and an admin get a different answer. The requests are generated from
// the contract, so the test covers every new route.
func TestForeignSessionLooksUnknown(t *testing.T) {
	ring := newTestKeys(t, keys.Key{Name: "owner"}, keys.Key{Name: "stranger"},
		keys.Key{Name: "admin", Admin: true})
	g := newTLSRig(t, Options{Keys: ring.Ring})
	token := func(name string) string { return "Bearer " + ring.token[name] }
	g.key = ring.token["owner"]
	create := func() string {
		return strings.TrimPrefix(g.create(`{"settings":{"method":"static"}}`), "/v1/sessions/")
	}
	id := create()
	never, err := uuid.NewV7()
	require.NoError(t, err)

	named := 0
	for _, s := range samples(t) {
		// PUT accepts a name, not an id.
		if !strings.Contains(s.path, "{id}") || s.method == http.MethodPut {
			continue
		}
		named++
		foreign, none := s.send(g, id, token("stranger")), s.send(g, never.String(),
			token("stranger"))
		require.Equal(t, http.StatusNotFound, foreign.StatusCode, s)
		got, err := io.ReadAll(foreign.Body)
		require.NoError(t, err)
		want, err := io.ReadAll(none.Body)
		require.NoError(t, err)
		require.Equal(t, strings.ReplaceAll(string(want), never.String(), id), string(got), s)
		for _, resp := range []*http.Response{foreign, none} {
			resp.Header.Del("Date")
		}
		require.Equal(t, none.Header, foreign.Header, s)
		if s.method != http.MethodHead {
			require.Contains(t, string(got), `"type":"urn:lmserve:problem:session-not-found"`, s)
		}
		for _, name := range []string{"owner", "admin"} {
			own := create()
			resp := s.send(g, own, token(name))
			require.Less(t, resp.StatusCode, 300, "%s, as %s", s, name)
			if made := resp.Header.Get("Location"); made != "" {
				require.Equal(t, http.StatusNotFound, g.do("GET", made, nil, "Authorization",
					token("stranger")).StatusCode, s)
				require.Equal(t, http.StatusNoContent, g.do("DELETE", made, nil, "Authorization",
					token(name)).StatusCode, "what it made is its own")
			}
			g.do("DELETE", "/v1/sessions/"+own, nil)
		}
	}
	require.GreaterOrEqual(t, named, 16, "the contract was walked")

	require.Zero(t, decode[api.Session](t, g.do("GET", "/v1/sessions/"+id, nil),
		http.StatusOK).Offset, "nothing has changed")
	list := func(name string) []api.Session {
		return decode[api.SessionList](t, g.do("GET", "/v1/sessions", nil, "Authorization",
			token(name)), http.StatusOK).Sessions
	}
	require.Empty(t, list("stranger"))
	require.Len(t, list("owner"), 1)
	require.Nil(t, list("owner")[0].Owner)
	require.Len(t, list("admin"), 1)
	require.Equal(t, ring.id["owner"], *list("admin")[0].Owner)
}

// Every operation refuses a request without a valid key in the same way, whatever else the request
// contains. Only public operations answer. The requests are generated from the contract.
func TestEveryOperationNeedsAKeyButForTheShortList(t *testing.T) {
	ring := newTestKeys(t, keys.Key{Name: "good"}, keys.Key{Name: "expired",
		Expires: time.Now().Add(-time.Second)}, keys.Key{Name: "revoked", Revoked: time.Now()})
	g := newTLSRig(t, Options{Keys: ring.Ring})
	good := ring.token["good"]
	_, stranger := keys.New("stranger", time.Now())
	bad := map[string]string{
		"":                                       "",
		"Bearer":                                 "malformed",
		"Bearer " + good[1:]:                     "malformed",
		good:                                     "malformed",
		"Basic " + good:                          "malformed",
		"Bearer " + stranger:                     "unknown",
		"Bearer " + wrong(good):                  "unknown",
		"Bearer " + wrong(ring.token["expired"]): "unknown",
		"Bearer " + wrong(ring.token["revoked"]): "unknown",
		"Bearer " + ring.token["expired"]:        "expired",
		"Bearer " + ring.token["revoked"]:        "revoked",
	}
	guarded := 0
	for _, s := range samples(t) {
		if slices.Contains(public, strings.Replace(s.method, "HEAD", "GET", 1)+" "+s.path) {
			require.Equal(t, http.StatusOK, s.send(g, "", "").StatusCode, s)
			continue
		}
		guarded++
		for _, s := range []sample{s, withQuery(s)} {
			details := map[string]string{}
			for header, kind := range bad {
				resp := s.send(g, "some-id", header)
				require.Equal(t, http.StatusUnauthorized, resp.StatusCode, s)
				require.Regexp(t, `^Bearer realm="lmserve"(, error="invalid_token")?$`,
					resp.Header.Get("WWW-Authenticate"))
				if s.method == http.MethodHead {
					continue
				}
				detail := ""
				// The OTLP route answers a Protobuf request with a problem in Protobuf.
				if resp.Header.Get("Content-Type") == contract.MediaProtobuf {
					raw, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					detail = string(raw)
				} else {
					detail = *requireProblem(t, resp, api.ProblemUnauthorized).Detail
				}
				if known, ok := details[kind]; ok {
					require.Equal(t, known, detail, "which of these it was is not told")
				}
				details[kind] = detail
				require.NotContains(t, detail, "lms_")
			}
			if s.method != http.MethodHead {
				require.Len(t, slices.Compact(slices.Sorted(maps.Values(details))), 5)
			}
		}
	}
	require.GreaterOrEqual(t, guarded, 26, "the contract was walked")
	for _, path := range []string{"/nowhere", "/v1", "/docs/", "/healthz/", "//healthz",
		"/%68ealthz", "/v1/sessions/", "/metrics"} {
		resp, err := g.plain.Get(g.url + path)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode, path)
	}
	require.Equal(t, http.StatusUnauthorized, g.do("DELETE", "/healthz", nil).StatusCode)
	require.Equal(t, http.StatusOK, g.do("GET", "/v1/sessions", nil, "Authorization", "bEARER  "+
		good).StatusCode)

	r, err := http.NewRequest("GET", g.url+"/v1/sessions", nil)
	require.NoError(t, err)
	r.Header["Authorization"] = []string{"Bearer " + good, "Bearer " + stranger}
	resp, err := g.client.Do(r)
	require.NoError(t, err)
	requireProblem(t, resp, api.ProblemUnauthorized)
}

func wrong(token string) string {
	return token[:len(token)-2] + map[bool]string{true: "B",
		false: "A"}[token[len(token)-2] == 'A'] + token[len(token)-1:]
}

func withQuery(s sample) sample {
	s.path += map[bool]string{true: "&", false: "?"}[strings.Contains(s.path, "?")] +
		"bogus=1&offset=ten"
	return s
}

// The contract marks public operations with `security: []`. They must equal the list in the
// variable public.
func TestPublicListMatchesContract(t *testing.T) {
	var found []string
	for path, item := range document(t).Paths.Map() {
		for method, op := range item.Operations() {
			if op.Security != nil {
				require.Empty(t, *op.Security)
				found = append(found, method+" "+path)
			}
		}
	}
	require.ElementsMatch(t, public, found)
	require.Equal(t, openapi3.SecurityRequirements{{"key": {}}}, document(t).Security)
}

func TestWithoutAKeysFileThereIsOneAnonymousOwner(t *testing.T) {
	ring := &testKeys{path: filepath.Join(t.TempDir(), "keys.json")}
	var err error
	ring.Ring, err = keys.OpenRing(ring.path, func(error) {})
	require.NoError(t, err)
	for _, o := range []Options{{}, {Keys: ring.Ring}} {
		g := newRig(t, o)
		path := g.create("{}")
		require.Equal(t, http.StatusOK, g.do("GET", path, nil, "Authorization",
			"Bearer whatever").StatusCode)
		require.Len(t, decode[api.SessionList](t, g.do("GET", "/v1/sessions", nil),
			http.StatusOK).Sessions, 1)
	}
}

func TestAccessLogNamesKeyAndNeverShowsIt(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	ring := newTestKeys(t, keys.Key{Name: "alice"})
	g := newRig(t, Options{Log: zap.New(core), Keys: ring.Ring})
	g.key = ring.token["alice"]
	path := g.create("{}")
	g.text(path+"/score", "hello")
	g.do("GET", path, nil, "Authorization", "Bearer "+wrong(g.key))
	require.Eventually(t, func() bool { return logs.FilterMessage("request").Len() == 3 },
		5*time.Second, time.Millisecond)
	all := logs.FilterMessage("request").All()
	require.Equal(t, ring.id["alice"], all[1].ContextMap()["key"])
	require.Equal(t, "", all[2].ContextMap()["key"])
	require.Equal(t, "/v1/sessions/{id}", all[2].ContextMap()["route"])
	require.EqualValues(t, http.StatusUnauthorized, all[2].ContextMap()["status"])
	_, secret, _ := strings.Cut(strings.TrimPrefix(g.key, "lms_"), "_")
	for _, entry := range logs.All() {
		text, err := json.Marshal(entry.ContextMap())
		require.NoError(t, err)
		require.NotContains(t, string(text), secret)
	}
}
