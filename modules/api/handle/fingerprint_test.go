package handle

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

type request struct {
	Name   string            `json:"name"`
	Size   int64             `json:"size"`
	Params map[string]string `json:"params,omitempty"`
	Added  string            `json:"added,omitempty"`
}

func TestFingerprintNeverChanges(t *testing.T) {
	const want = "2a177649c99139e1332564d4593ec5511a7c68297fcaeb2a8741d7b66d6e31f8"
	got, err := Fingerprint(map[string]any{"size": 1, "name": "x"})
	if err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	sameFields, err := Fingerprint(request{Name: "x", Size: 1})
	if err != nil || sameFields != want {
		t.Errorf("a struct with the same fields has %s, %v, want %s", sameFields, err, want)
	}
}

func TestFingerprintTellsRequestsApart(t *testing.T) {
	base := request{Name: "x", Size: 1, Params: map[string]string{"a": "1", "b": "2"}}
	first, err := Fingerprint(base)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		other request
		same  bool
	}{
		"the same, its map made in another order": {request{Name: "x", Size: 1, Params: map[string]string{"b": "2", "a": "1"}}, true},
		"another size":                 {request{Name: "x", Size: 2, Params: base.Params}, false},
		"another parameter":            {request{Name: "x", Size: 1, Params: map[string]string{"a": "1", "b": "3"}}, false},
		"fewer parameters":             {request{Name: "x", Size: 1, Params: map[string]string{"a": "1"}}, false},
		"a field that was added later": {request{Name: "x", Size: 1, Params: base.Params, Added: "y"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Fingerprint(tc.other)
			if err != nil || (got == first) != tc.same {
				t.Errorf("got %s, %v, first %s, same should be %v", got, err, first, tc.same)
			}
		})
	}
}

func TestFingerprintOfWhatJSONCannotSayIsAnError(t *testing.T) {
	if got, err := Fingerprint(math.NaN()); err == nil || got != "" {
		t.Errorf("got %q, %v, want an error", got, err)
	}
}

// FuzzFingerprint: the same request always has the same fingerprint, one that differs
// in any field, or has its text divided otherwise, another.
func FuzzFingerprint(f *testing.F) {
	f.Add("x", int64(1), "a", "1")
	f.Add("", int64(0), "", "")
	f.Add(`","size":2,"name":"`, int64(-1), "\x00", "<&>\u2028")
	f.Add("x", int64(math.MaxInt64), "added", "y")
	f.Fuzz(func(t *testing.T, name string, size int64, key, value string) {
		for _, text := range []string{name, key, value} {
			if !utf8.ValidString(text) {
				return // gRPC carries no such string, and JSON takes all of them for one
			}
		}
		of := func(r request) string {
			t.Helper()
			got, err := Fingerprint(r)
			if err != nil {
				t.Fatal(err)
			}
			if raw, err := hex.DecodeString(got); err != nil || len(raw) != 32 || got != strings.ToLower(got) {
				t.Errorf("%q is not 64 hexadecimal digits", got)
			}
			return got
		}
		first := of(request{Name: name, Size: size, Params: map[string]string{key: value}})
		if again := of(request{Name: name, Size: size, Params: map[string]string{key: value}}); again != first {
			t.Errorf("the same request has %s and %s", first, again)
		}
		for what, other := range map[string]request{
			"name":             {Name: name + "x", Size: size, Params: map[string]string{key: value}},
			"size":             {Name: name, Size: size ^ 1, Params: map[string]string{key: value}},
			"key":              {Name: name, Size: size, Params: map[string]string{key + "x": value}},
			"value":            {Name: name, Size: size, Params: map[string]string{key: value + "x"}},
			"no parameter":     {Name: name, Size: size},
			"a further field":  {Name: name, Size: size, Params: map[string]string{key: value}, Added: "x"},
			"value in the key": {Name: name, Size: size, Params: map[string]string{key + value + ":": ""}},
		} {
			if of(other) == first {
				t.Errorf("a request with another %s has the same fingerprint", what)
			}
		}
	})
}
