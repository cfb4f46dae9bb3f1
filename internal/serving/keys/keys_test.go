package keys

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var day = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func TestTokenHasIDAndSecretAndFileHasNeither(t *testing.T) {
	k, token := New("alice", day.Add(time.Millisecond))
	require.Regexp(t, `^lms_[0-9a-f]{16}_[A-Za-z0-9_-]{43}$`, token)
	id, secret, ok := splitToken(token)
	require.True(t, ok)
	require.Equal(t, k.ID, id)
	require.Equal(t, k.Hash, sha256.Sum256([]byte(secret)))
	require.Equal(t, day, k.Created)
	text := string(Format([]Key{k}))
	require.NotContains(t, text, secret)
	require.Contains(t, text, hex.EncodeToString(k.Hash[:]))

	_, other := New("alice", day)
	require.NotEqual(t, token, other)
	for _, bad := range []string{"", "lms_", token + "A", token[1:], token[:len(token)-1],
		strings.ToUpper(token), strings.Replace(token, id+"_", id+"-", 1),
		strings.Replace(token, secret[:1], "=", 1), "xms" + token[3:], token[:len(token)-1] + "é"} {
		_, _, ok := splitToken(bad)
		require.False(t, ok, bad)
	}
}

func drawKeys(t *rapid.T) (list []Key) {
	for i := range rapid.IntRange(0, 5).Draw(t, "keys") {
		at := func(name string) time.Time {
			if !rapid.Bool().Draw(t, name+"?") {
				return time.Time{}
			}
			return time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, name),
				rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
		}
		k, _ := New(fmt.Sprintf("%s-%d", rapid.StringMatching(`[A-Za-z0-9._@+-]{1,60}`).Draw(t,
			"name"), i), day)
		k.Expires, k.Revoked, k.Admin = at("expires"), at("revoked"), rapid.Bool().Draw(t, "admin")
		k.Limits = Limits{
			Sessions:       rapid.SampledFrom([]int{0, 1, 7, SessionsMax}).Draw(t, "sessions"),
			Requests:       rapid.SampledFrom([]int{0, 1, RequestsMax}).Draw(t, "requests"),
			BytesPerSecond: rapid.SampledFrom([]int64{0, 1, BytesPerSecondMax}).Draw(t, "bytes"),
			Disk:           rapid.SampledFrom([]int64{0, 1, DiskMax}).Draw(t, "disk"),
		}
		list = append(list, k)
	}
	return list
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := drawKeys(t)
		got, err := Parse("f", Format(list))
		require.NoError(t, err)
		require.Equal(t, list, got)
	})
}

const good = `{
  "version": 1,
  "keys": [
    {
      "id": "5f0c6c1d9ea23b47",
      "name": "alice",
      "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
      "created": "2026-11-21T09:00:00Z",
      "expires": "2027-11-21T00:00:00+01:00",
      "admin": false,
      "limits": {"sessions": 100, "requests": 8, "bytes_per_second": 65536, "disk": 1048576}
    },
    {"id": "0000000000000001", "name": "bob", "created": "2026-11-21T09:00:00.5Z", "revoked": "2026-11-22T09:00:00Z",
     "sha256": "0000000000000000000000000000000000000000000000000000000000000000"}
  ]
}
`

func TestWhatIsWrongIsLocated(t *testing.T) {
	list, err := Parse("keys.json", []byte(good))
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, Limits{100, 8, 65536, 1 << 20}, list[0].Limits)

	for _, c := range []struct{ old, new, want string }{
		{`"version": 1`, `"version": 2`, `keys.json:2: version: found 2, expected 1`},
		{`"version": 1,`, ``, `keys.json:16: version: found nothing, expected a value`},
		{`"version": 1`, `"version": 1.0`, `keys.json:2: version: found 1.0, expected 1`},
		{`"version": 1`, `"Version": 1`,
			`keys.json:2: Version: found an unknown field, expected one of ["version" "keys"]`},
		{`"version": 1`, `"version": 1, "version": 1`,
			`keys.json:2: version: found a duplicate field, expected the field once`},
		{`"keys": [`, `"keys": 7, "k": [`, `keys.json:3: keys: found 7, expected an array`},
		{`"5f0c6c1d9ea23b47"`, `"5F0C6C1D9EA23B47"`,
			`keys.json:5: keys[0].id: found "5F0C6C1D9EA23B47", expected 16 hexadecimal digits ` +
				`in lower case`},
		{`"5f0c6c1d9ea23b47"`, `5`, `keys.json:5: keys[0].id: found 5, expected a string`},
		{`"alice"`, `"al ice"`,
			`keys.json:6: keys[0].name: found "al ice", expected a name of 1 to 64 letters, ` +
				`digits or . _ @ + -`},
		{`"alice"`, `"0123456789abcdef"`,
			`keys.json:6: keys[0].name: found "0123456789abcdef", expected a name that does not look like an id`},
		{`"alice"`, `null`, `keys.json:6: keys[0].name: found null, expected a string`},
		{`a08"`, `a0"`,
			`keys.json:7: keys[0].sha256: found ` +
				`"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a0", expected 64 ` +
				`hexadecimal digits in lower case`},
		{`a08"`, `A08"`,
			`keys.json:7: keys[0].sha256: found ` +
				`"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00A08", expected 64 ` +
				`hexadecimal digits in lower case`},
		{`"2026-11-21T09:00:00Z"`, `"tomorrow"`,
			`keys.json:8: keys[0].created: found "tomorrow", expected a time such as ` +
				`2026-01-31T00:00:00Z`},
		{`"2027-11-21T00:00:00+01:00"`, `"0001-01-01T00:00:00+01:00"`,
			`keys.json:9: keys[0].expires: found "0001-01-01T00:00:00+01:00", expected a year ` +
				`from 1 to 9999`},
		{`"admin": false`, `"admin": "no"`,
			`keys.json:10: keys[0].admin: found "no", expected true or false`},
		{`"admin"`, `"adm\u00efn"`,
			`keys.json:10: keys[0]."admïn": found an unknown field, expected one of ["id" "name" ` +
				`"sha256" "created" "expires" "revoked" "admin" "limits"]`},
		{`"sessions": 100`, `"sessions": 0`,
			`keys.json:11: keys[0].limits.sessions: found 0, expected an integer from 1 to ` +
				`1048576`},
		{`"requests": 8`, `"requests": 1e2`,
			`keys.json:11: keys[0].limits.requests: found 1e2, expected an integer from 1 ` +
				`to 65536`},
		{`65536`, `-1`,
			`keys.json:11: keys[0].limits.bytes_per_second: found -1, expected an integer from 1 ` +
				`to 1099511627776`},
		{`65536`, `99999999999999999999`,
			`keys.json:11: keys[0].limits.bytes_per_second: found 99999999999999999999, expected ` +
				`an integer from 1 to 1099511627776`},
		{`{"sessions": 100, "requests": 8, "bytes_per_second": 65536, "disk": 1048576}`, `[]`,
			`keys.json:11: keys[0].limits: found an array, expected an object`},
		{`"0000000000000001"`, `"5f0c6c1d9ea23b47"`,
			`keys.json:13: keys[1].id: found "5f0c6c1d9ea23b47", already used by keys[0], expected an unused id`},
		{`"bob", "created": "2026-11-21T09:00:00.5Z", "revoked": "2026-11-22T09:00:00Z"`,
			`"alice", "created": "2026-11-21T09:00:00.5Z"`,
			`keys.json:13: keys[1].name: found "alice", already used by keys[0], expected an unused name, or one of the two keys revoked`},
		{`"name": "bob",`, ``, `keys.json:14: keys[1].name: found nothing, expected a value`},
		{`"alice",`, `"alice"`,
			`keys.json:7: found invalid character '"' after object key:value pair, expected JSON`},
		{"  ]\n}\n", "  ]\n", `keys.json:15: found unexpected end of JSON input, expected JSON`},
		{"  ]\n}\n", "  ]\n}\n{}",
			`keys.json:17: found invalid character '{' after top-level value, expected JSON`},
		{`"alice"`, "\"al\xffice\"", `keys.json:6: found the byte 0xff, expected UTF-8`},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		require.NotEqual(t, good, text, c.old)
		_, err := Parse("keys.json", []byte(text))
		require.EqualError(t, err, c.want)
		require.ErrorAs(t, err, new(*FormatError))
	}
	_, err = Parse("keys.json", nil)
	require.EqualError(t, err, "keys.json:1: found unexpected end of JSON input, expected JSON")
	_, err = Parse("keys.json", make([]byte, FileBytesMax+1))
	require.EqualError(t, err, "keys.json:1: found more than 16777216 bytes, expected no more")
	many := make([]Key, KeysMax+1)
	for i := range many {
		many[i], _ = New(fmt.Sprint("k", i), day)
	}
	_, err = Parse("keys.json", Format(many))
	require.ErrorContains(t, err, "keys: found more than 10000 elements, expected no more")
	_, err = Parse("keys.json", Format(many[:KeysMax]))
	require.NoError(t, err)
}

// Formatting and parsing accepted keys again must not change them.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add(Format(nil))
	f.Add([]byte(`{"version":1,"keys":[{"limits":{}}]}`))
	f.Add([]byte(`{"keys":[],"version":1}`))
	f.Add([]byte(`[[[[`))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := Parse("f", text)
		if err != nil {
			require.ErrorAs(t, err, new(*FormatError))
			return
		}
		again, err := Parse("f", Format(list))
		require.NoError(t, err)
		require.Equal(t, list, again)
	})
}

func FuzzToken(f *testing.F) {
	k, token := New("k", day)
	f.Add(token)
	f.Add("lms_")
	ring := ringOf(f, k)
	f.Fuzz(func(t *testing.T, other string) {
		got, err := ring.Authenticate(other)
		if other == token {
			require.NoError(t, err)
			require.Equal(t, k, got)
			return
		}
		require.True(t, errors.Is(err, ErrUnknown) || errors.Is(err, ErrMalformed))
	})
}

func ringOf(t testing.TB, list ...Key) *Ring {
	path := filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, os.WriteFile(path, Format(list), 0o600))
	r, err := OpenRing(path, func(error) {})
	require.NoError(t, err)
	return r
}

func TestOnlyTheWholeRightSecretOpens(t *testing.T) {
	k, token := New("alice", day)
	expired, expiredToken := New("bob", day)
	expired.Expires = time.Now().Add(-time.Second)
	revoked, revokedToken := New("carol", day)
	// a revoked key is refused even if the time of its revocation is in the future
	revoked.Revoked = time.Now().Add(time.Hour)
	_, stranger := New("dave", day)
	r := ringOf(t, k, expired, revoked)
	require.True(t, r.Required())

	got, err := r.Authenticate(token)
	require.NoError(t, err)
	require.Equal(t, k, got)
	require.NoError(t, r.Check(k.ID))
	for i := len(token) - secretChars; i < len(token); i++ {
		wrong := []byte(token)
		wrong[i] = secretAlphabet[(strings.IndexByte(secretAlphabet, wrong[i])+
			1)%len(secretAlphabet)]
		_, err := r.Authenticate(string(wrong))
		require.ErrorIs(t, err, ErrUnknown)
	}
	for token, want := range map[string]error{
		expiredToken: ErrExpired, revokedToken: ErrRevoked, stranger: ErrUnknown, "": ErrMalformed,
		k.ID: ErrMalformed,
		// a client without the right secret must not learn that the key has expired
		"lms_" + expired.ID + token[len("lms_")+idChars:]: ErrUnknown,
	} {
		_, err := r.Authenticate(token)
		require.ErrorIs(t, err, want)
	}
	require.ErrorIs(t, r.Check(expired.ID), ErrExpired)
	require.ErrorIs(t, r.Check("0000000000000000"), ErrUnknown)
}

// An unknown id must not match a key whose hash is all zeros.
func TestUnknownIDIsNoKey(t *testing.T) {
	r := ringOf(t, Key{ID: "0000000000000001", Name: "z", Created: day})
	_, err := r.Authenticate("lms_0000000000000002_" + strings.Repeat("A", secretChars))
	require.ErrorIs(t, err, ErrUnknown)
}

func TestKeyExpiresOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, token := New("alice", time.Now())
		k.Expires = time.Now().Add(time.Hour)
		r := ringOf(t, k)
		time.Sleep(time.Hour - 1)
		_, err := r.Authenticate(token)
		require.NoError(t, err)
		time.Sleep(time.Nanosecond)
		_, err = r.Authenticate(token)
		require.ErrorIs(t, err, ErrExpired)
	})
}

// Once a keys file has existed, a server must not accept requests without a key. The file may
// become invalid or be removed.
func TestRingFollowsFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "folder", "keys.json")
		var reports []error
		r, err := OpenRing(path, func(err error) { reports = append(reports, err) })
		require.NoError(t, err)
		require.False(t, r.Required())
		time.Sleep(time.Hour)
		require.False(t, r.Required())
		require.NoError(t, r.Stale())

		k, token := New("alice", time.Now())
		require.NoError(t, UpdateFile(path, func(list []Key) ([]Key, error) {
			return Add(list,
				k)
		}))
		time.Sleep(time.Second)
		require.True(t, r.Required())
		_, err = r.Authenticate(token)
		require.NoError(t, err)
		require.Equal(t, []error{nil}, reports)

		require.NoError(t, UpdateFile(path, func(list []Key) ([]Key, error) {
			list, _, err :=
				Revoke(list, "alice", time.Now())
			return list, err
		}))
		time.Sleep(time.Second)
		_, err = r.Authenticate(token)
		require.ErrorIs(t, err, ErrRevoked)

		good, err := os.ReadFile(path)
		require.NoError(t, err)
		reports = nil
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(good), "alice", "", 1)),
			0o600))
		time.Sleep(time.Second)
		require.ErrorContains(t, r.Stale(),
			"keys.json:6: keys[0].name: found \"\", expected a name")
		require.Len(t, reports, 1)
		require.NoError(t, os.Remove(path))
		time.Sleep(time.Second)
		require.ErrorIs(t, r.Stale(), fs.ErrNotExist)
		require.True(t, r.Required(), "a server that has asked for keys never stops to")
		_, err = r.Authenticate(token)
		require.ErrorIs(t, err, ErrRevoked, "the keys last read")

		require.NoError(t, os.WriteFile(path, Format(nil), 0o600))
		time.Sleep(time.Second)
		require.NoError(t, r.Stale())
		require.True(t, r.Required(), "a file without a key is a file")
		_, err = r.Authenticate(token)
		require.ErrorIs(t, err, ErrUnknown)
	})
	bad := filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, os.WriteFile(bad, []byte("{"), 0o600))
	_, err := OpenRing(bad, nil)
	require.ErrorContains(t, err, "keys.json:1: found unexpected end of JSON input, expected JSON",
		"a server does not start on it")
}

func TestNamesAreFreeAgainOnceRevoked(t *testing.T) {
	a, _ := New("alice", day)
	list, err := Add(nil, a)
	require.NoError(t, err)
	b, _ := New("alice", day)
	_, err = Add(list, b)
	require.EqualError(t, err, `keys: name: found "alice", the name of key `+a.ID+
		`; expected an unused name, or revoke that key first`)
	list, gone, err := Revoke(list, "alice", day)
	require.NoError(t, err)
	require.Equal(t, a.ID, gone.ID)
	_, _, err = Revoke(list, "alice", day)
	require.EqualError(t, err, "keys: key "+a.ID+" (alice) was already revoked at "+
		"2026-11-21T09:00:00Z")
	list, err = Add(list, b)
	require.NoError(t, err)
	_, err = Parse("f", Format(list))
	require.NoError(t, err)
	_, gone, err = Revoke(list, "alice", day)
	require.NoError(t, err)
	require.Equal(t, b.ID, gone.ID, "the one that can be")
	_, _, err = Revoke(list, a.ID, day)
	require.ErrorContains(t, err, "already")
	_, _, err = Revoke(list, "nobody", day)
	require.EqualError(t, err, `keys: no key has the id or name "nobody"; the list has 2 keys`)
	_, err = Add(list, Key{Name: "no spaces"})
	require.ErrorContains(t, err, `name: found "no spaces"`)
}

func TestFileIsReplacedWholeOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	add := func(name string) error {
		return UpdateFile(path, func(list []Key) ([]Key, error) {
			k,
				_ := New(name, day)
			return Add(list, k)
		})
	}
	require.NoError(t, add("alice"))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Error(t, add("alice"))
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.NoFileExists(t, path+".lock")

	require.NoError(t, os.WriteFile(path, []byte("{}"), 0o600))
	require.ErrorContains(t, add("bob"), "version: found nothing",
		"what cannot be read is not overwritten")
	require.NoFileExists(t, path+".lock")
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o700))
	require.Error(t, add("carol"))
	require.NoFileExists(t, path+".lock")
}

func TestWritersAtOnceLoseNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	var all sync.WaitGroup
	errs := make(chan error, 20)
	for i := range cap(errs) {
		all.Go(func() {
			k, _ := New(fmt.Sprint("key-", i), day)
			errs <- UpdateFile(path, func(list []Key) ([]Key, error) { return Add(list, k) })
		})
	}
	all.Wait()
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	list, err := ReadFile(path)
	require.NoError(t, err)
	require.Len(t, list, cap(errs))
}

func TestLockLeftBehindIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "keys.json")
		require.NoError(t, os.WriteFile(path+".lock", nil, 0o600))
		err := UpdateFile(path, func(list []Key) ([]Key, error) { return list, nil })
		require.ErrorContains(t, err, path+".lock exists")
		require.ErrorContains(t, err, "remove this file")
		require.FileExists(t, path+".lock", "it is not ours")
	})
}
