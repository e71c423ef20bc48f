package nvmeof_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"testing"

	"github.com/distort-io/distort/modules/nvmeof"
)

func TestParseUUID(t *testing.T) {
	for s, rule := range map[string]string{
		"11111111-0000-4000-8000-000000000001":   "",
		"":                                       "lower case",
		"11111111-0000-4000-8000-00000000000":    "lower case",
		"11111111000040008000000000000001":       "lower case",
		"AAAAAAAA-0000-4000-8000-000000000001":   "lower case",
		"g1111111-0000-4000-8000-000000000001":   "lower case",
		"1111111-10000-4000-8000-000000000001":   "lower case",
		"{1111111-0000-4000-8000-00000000001}":   "lower case",
		"00000000-0000-0000-0000-000000000000":   "not be zero",
		"11111111-0000-4000-8000-000000000001\n": "lower case",
	} {
		t.Run(s, func(t *testing.T) {
			u, err := nvmeof.ParseUUID(s)
			expectRule(t, err, "uuid", s, rule)
			if rule == "" && u.String() != s {
				t.Errorf("written back as %s", u)
			}
		})
	}
}

func TestParseNGUID(t *testing.T) {
	for s, rule := range map[string]string{
		"11111111000040008000000000000001":     "",
		"":                                     "32 hexadecimal digits",
		"1111111100004000800000000000000":      "32 hexadecimal digits",
		"11111111-0000-4000-8000-000000000001": "32 hexadecimal digits",
		"AAAAAAAA000040008000000000000001":     "32 hexadecimal digits",
		"g1111111000040008000000000000001":     "32 hexadecimal digits",
		"00000000000000000000000000000000":     "not be zero",
	} {
		t.Run(s, func(t *testing.T) {
			g, err := nvmeof.ParseNGUID(s)
			expectRule(t, err, "nguid", s, rule)
			if rule == "" && g.String() != s {
				t.Errorf("written back as %s", g)
			}
		})
	}
}

func TestDerivedIdentityIsStableAndDistinct(t *testing.T) {
	// Fixed for ever: a change of these values changes the identity of every
	// exported disk, and hosts drop it.
	if got := nvmeof.DeriveUUID("nqn.2026-02.io.distort:a", "/dev/sda").String(); got != "73cf04b5-6d9b-86f7-a899-4db748fa9d52" {
		t.Errorf("uuid %s", got)
	}
	if got := nvmeof.DeriveSerial("nqn.2026-02.io.distort:a"); got != "5E5DC72C9CA34B06B56D" {
		t.Errorf("serial %s", got)
	}
	seen := map[nvmeof.UUID]bool{}
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"a", "b"}, {"ab"}, {"a", "", "b"}, {"b", "a"}} {
		u := nvmeof.DeriveUUID(parts...)
		if seen[u] || u.IsZero() {
			t.Errorf("%q collides: %s", parts, u)
		}
		seen[u] = true
		if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(u.String()) {
			t.Errorf("%s is no UUID of version 8", u)
		}
		if u.NGUID().IsZero() || u.NGUID().String() == u.String() {
			t.Errorf("nguid %s", u.NGUID())
		}
	}
}

func TestIdentityInJSON(t *testing.T) {
	ns := nvmeof.Namespace{NSID: 1, DevicePath: "/dev/sda", UUID: nvmeof.DeriveUUID("a"), NGUID: nvmeof.DeriveUUID("a").NGUID()}
	for name, want := range map[string]nvmeof.Namespace{"set": ns, "absent": {NSID: 1}} {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			var got nvmeof.Namespace
			if err := json.Unmarshal(raw, &got); err != nil || got != want {
				t.Errorf("%s became %+v, %v", raw, got, err)
			}
		})
	}
	for _, raw := range []string{`{"uuid":"x"}`, `{"nguid":"x"}`} {
		var got nvmeof.Namespace
		if err := json.Unmarshal([]byte(raw), &got); !errors.Is(err, nvmeof.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", raw, err)
		}
	}
}

func FuzzParseUUID(f *testing.F) {
	f.Add("11111111-0000-4000-8000-000000000001")
	f.Add("00000000-0000-0000-0000-000000000000")
	f.Fuzz(func(t *testing.T, s string) {
		u, err := nvmeof.ParseUUID(s)
		if err == nil && (u.String() != s || u.IsZero()) || err != nil && !u.IsZero() {
			t.Fatalf("%q: %s, %v", s, u, err)
		}
	})
}
