package debian

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseSources(t *testing.T) {
	tests := map[string]struct {
		name, text string
		want       []Source
	}{
		"one-line format": {
			name: "sources.list",
			text: "# a comment\ndeb http://mirror/debian bookworm main contrib # why\ndeb-src http://mirror/debian bookworm main\n",
			want: []Source{{URI: "http://mirror/debian", Suites: []string{"bookworm"}}},
		},
		"one-line format with options": {
			name: "x.list",
			text: "deb [arch=amd64 signed-by=/keys/a.gpg] https://mirror/debian bookworm-updates main\n",
			want: []Source{{URI: "https://mirror/debian", Suites: []string{"bookworm-updates"}, SignedBy: "/keys/a.gpg"}},
		},
		"one-line format without main": {
			name: "x.list",
			text: "deb https://mirror/tools stable tools\ndeb broken\n",
		},
		"paragraphs": {
			name: "debian.sources",
			text: "Types: deb deb-src\n# a comment\nURIs: http://mirror/debian\nSuites: bookworm\n bookworm-updates\nComponents: main\nSigned-By: /keys/d.gpg\n\nTypes: deb\nURIs: http://mirror/security\nSuites: bookworm-security\nComponents: main\n",
			want: []Source{
				{URI: "http://mirror/debian", Suites: []string{"bookworm", "bookworm-updates"}, SignedBy: "/keys/d.gpg"},
				{URI: "http://mirror/security", Suites: []string{"bookworm-security"}},
			},
		},
		"paragraphs that are disabled, of sources, or have their key inside": {
			name: "x.sources",
			text: "Enabled: no\nTypes: deb\nURIs: http://a\nSuites: s\nComponents: main\n\nTypes: deb-src\nURIs: http://b\nSuites: s\nComponents: main\n\nTypes: deb\nURIs: http://c\nSuites: s\nComponents: main\nSigned-By:\n -----BEGIN PGP-----\n",
			want: []Source{{URI: "http://c", Suites: []string{"s"}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseSources(test.name, strings.NewReader(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("sources (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForReleaseAddsBackportsOfTheSameMirror(t *testing.T) {
	host := []Source{
		{URI: "http://tools", Suites: []string{"stable"}},
		{URI: "http://mirror", Suites: []string{"bookworm", "bookworm-updates", "bookworm-proposed-updates"}, SignedBy: "/k"},
		{URI: "http://security", Suites: []string{"bookworm-security"}},
		{URI: "http://second", Suites: []string{"bookworm"}},
	}
	got, err := ForRelease(host, "bookworm")
	if err != nil {
		t.Fatal(err)
	}
	want := "deb [signed-by=/k] http://mirror bookworm main\n" +
		"deb [signed-by=/k] http://mirror bookworm-updates main\n" +
		"deb [signed-by=/k] http://mirror bookworm-backports main\n" +
		"deb http://security bookworm-security main\n" +
		"deb http://second bookworm main\n"
	if diff := cmp.Diff(want, Format(got)); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
}

func TestForReleaseTakesComponentsBesideMain(t *testing.T) {
	got, err := ForRelease([]Source{{URI: "http://mirror", Suites: []string{"bookworm"}}}, "bookworm", "contrib")
	if err != nil {
		t.Fatal(err)
	}
	want := "deb http://mirror bookworm main contrib\ndeb http://mirror bookworm-backports main contrib\n"
	if diff := cmp.Diff(want, Format(got)); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
}

func TestForReleaseRefusesAHostOfAnotherRelease(t *testing.T) {
	_, err := ForRelease([]Source{{URI: "http://mirror", Suites: []string{"trixie"}}}, "bookworm")
	if err == nil || !strings.Contains(err.Error(), `"bookworm"`) {
		t.Errorf("got %v, want an error that names the release", err)
	}
}

func TestParseDepends(t *testing.T) {
	got := ParseDepends("linux-image-6.12.95+deb12-amd64 (= 6.12.95-1), a | b (>= 2), c")
	if diff := cmp.Diff([]string{"linux-image-6.12.95+deb12-amd64", "a", "c"}, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}
