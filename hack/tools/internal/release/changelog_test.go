package release

import (
	"testing"
	"time"
)

const head = "# Changelog\n\nThe format.\n\n"

func TestOpenSection(t *testing.T) {
	for name, c := range map[string]struct{ text, want, refused string }{
		"above the last release": {
			head + "## [0.1.0] - 2026-12-01\n\n- Old.\n",
			head + "## [Unreleased] 0.2.0\n\n## [0.1.0] - 2026-12-01\n\n- Old.\n", "",
		},
		"the one that is open": {
			head + "## [Unreleased] 0.1.1\n\n- New.\n\n## [0.1.0] - 2026-12-01\n",
			head + "## [Unreleased] 0.2.0\n\n- New.\n\n## [0.1.0] - 2026-12-01\n", "",
		},
		"one that says so of its date": {head + "## [0.1.0] - unreleased\n", head + "## [Unreleased] 0.2.0\n", ""},
		"no section":                   {head, "", "it has no section"},
		"another heading":              {head + "## Next\n", "", `"## Next" is neither`},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, _, err := openSection(c.text, "v0.2.0")
			if got != c.want {
				t.Errorf("openSection = %q, want %q", got, c.want)
			}
			wantError(t, err, c.refused)
		})
	}
}

func TestCloseSection(t *testing.T) {
	for name, c := range map[string]struct{ text, want, refused string }{
		"with its version":   {head + "## [Unreleased] 0.2.0\n\n- New.\n", head + "## [0.2.0] - 2026-12-05\n\n- New.\n", ""},
		"without":            {head + "## [Unreleased]\n\n- New.\n", head + "## [0.2.0] - 2026-12-05\n\n- New.\n", ""},
		"of another version": {head + "## [Unreleased] 0.3.0\n", "", `"## [Unreleased] 0.3.0" is not of v0.2.0`},
		"released":           {head + "## [0.2.0] - 2026-12-01\n", "", "is released already"},
		"no section":         {head, "", "it has no section"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, _, err := closeSection(c.text, "v0.2.0", time.Date(2026, 12, 5, 0, 0, 0, 0, time.UTC))
			if got != c.want {
				t.Errorf("closeSection = %q, want %q", got, c.want)
			}
			wantError(t, err, c.refused)
		})
	}
}

func TestReleasedSection(t *testing.T) {
	for name, c := range map[string]struct{ text, refused string }{
		"dated":               {head + "## [0.2.0] - 2026-12-05\n\n- New.\n", ""},
		"not dated":           {head + "## [0.2.0] - unreleased\n\n- New.\n", `want "## [0.2.0] - YYYY-MM-DD"`},
		"open":                {head + "## [Unreleased] 0.2.0\n\n- New.\n", `want "## [0.2.0] - YYYY-MM-DD"`},
		"no such day":         {head + "## [0.2.0] - 2026-02-30\n\n- New.\n", `want "## [0.2.0] - YYYY-MM-DD"`},
		"of the last release": {head + "## [0.1.0] - 2026-12-05\n\n- New.\n", `want "## [0.2.0] - YYYY-MM-DD"`},
		"nothing in it":       {head + "## [0.2.0] - 2026-12-05\n\n## [0.1.0] - 2026-12-01\n\n- Old.\n", "names no change"},
		"missing":             {head, "it has no section"},
	} {
		t.Run(name, func(t *testing.T) {
			notes, err := releasedSection(c.text, "v0.2.0")
			wantError(t, err, c.refused)
			if err == nil && notes != "- New." {
				t.Errorf("notes are %q", notes)
			}
		})
	}
}
