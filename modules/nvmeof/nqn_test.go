package nvmeof_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/distort-io/distort/modules/nvmeof"
)

func TestParseNQN(t *testing.T) {
	fits := "nqn.2026-02.io.distort:" + strings.Repeat("x", nvmeof.MaxNQNLength-len("nqn.2026-02.io.distort:"))
	for s, rule := range map[string]string{
		"nqn.2026-02.io.distort:volume-a":                                      "",
		"nqn.2026-01.io.distort:host-00000000000000000000000000000001":         "",
		"nqn.2014-08.org.nvmexpress:uuid:07b7028d-b822-404b-9cde-ee475895701b": "",
		"nqn.2014-08.com.example-site:nvme:A_b.c-1":                            "",
		fits:                               "",
		fits + "x":                         "at most 223 bytes",
		"":                                 "not be empty",
		nvmeof.DiscoveryNQN:                "discovery",
		"iqn.2026-02.io.distort:a":         "begin with",
		"nqn.":                             "begin with",
		"nqn.2026-2.io.distort:a":          "begin with",
		"nqn.2026-00.io.distort:a":         "begin with",
		"nqn.2026-13.io.distort:a":         "begin with",
		"nqn.2026/02.io.distort:a":         "begin with",
		"nqn.2026-02:a":                    "begin with",
		"nqn.2026-02.:a":                   "reversed lower-case domain",
		"nqn.2026-02.io..distort:a":        "reversed lower-case domain",
		"nqn.2026-02.io.-distort:a":        "reversed lower-case domain",
		"nqn.2026-02.io.Distort:a":         "reversed lower-case domain",
		"nqn.2026-02.io.distort":           "colon",
		"nqn.2026-02.io.distort:":          "end with a name",
		"nqn.2026-02.io.distort:a/b":       "end with a name",
		"nqn.2026-02.io.distort:a b":       "end with a name",
		"nqn.2026-02.io.distort:a\n":       "end with a name",
		"nqn.2026-02.io.distort:a\x00":     "end with a name",
		"nqn.2026-02.io.distort:\u00e9":    "end with a name",
		"nqn.2014-08.org.nvmexpress:uuid:": "UUID",
		"nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000000": "UUID",
		"nqn.2014-08.org.nvmexpress:uuid:07B7028D-B822-404B-9CDE-EE475895701B": "UUID",
		" nqn.2026-02.io.distort:a": "begin with",
	} {
		t.Run(s, func(t *testing.T) {
			got, err := nvmeof.ParseNQN(s)
			expectRule(t, err, "nqn", s, rule)
			if rule == "" && got != s {
				t.Errorf("got %q", got)
			}
		})
	}
}

// expectRule checks that err is nil (rule "") or names field, value and rule.
func expectRule(t *testing.T, err error, field, value, rule string) {
	t.Helper()
	if rule == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	var fe *nvmeof.FieldError
	if !errors.As(err, &fe) || !errors.Is(err, nvmeof.ErrInvalid) {
		t.Fatalf("error %v, want a FieldError", err)
	}
	if fe.Field != field || fe.Value != value || !strings.Contains(fe.Rule, rule) {
		t.Errorf("error %v, want field %q, value %q, rule with %q", err, field, value, rule)
	}
}

func FuzzParseNQN(f *testing.F) {
	for _, s := range []string{"nqn.2026-02.io.distort:volume-a", nvmeof.DiscoveryNQN, "nqn.2014-08.org.nvmexpress:uuid:07b7028d-b822-404b-9cde-ee475895701b", "nqn.2026-02.io:../x", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := nvmeof.ParseNQN(s)
		if err != nil {
			if !errors.Is(err, nvmeof.ErrInvalid) || got != "" {
				t.Fatalf("%q: %q, %v", s, got, err)
			}
			return
		}
		if got != s || len(s) > nvmeof.MaxNQNLength || strings.ContainsAny(s, "/\\ \x00\n,") || !strings.HasPrefix(s, "nqn.") {
			t.Fatalf("accepted %q", s)
		}
		for _, r := range s {
			if r <= ' ' || r > '~' {
				t.Fatalf("accepted %q", s)
			}
		}
	})
}
