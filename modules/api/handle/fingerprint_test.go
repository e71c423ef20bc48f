package handle

import (
	"math"
	"testing"
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
