package explain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSignsAreWordsOfTheCSIDriver reads the driver's source where it is beside
// this module: a word that it no longer says would make explain blind.
func TestSignsAreWordsOfTheCSIDriver(t *testing.T) {
	source := filepath.Join("..", "..", "..", "csi", "internal")
	if _, err := os.Stat(source); err != nil {
		t.Skip("the module of distort-csi is not beside this one")
	}
	var text strings.Builder
	for _, pattern := range []string{"initiator/*.go", "formatonce/*.go", "controller/*.go"} {
		files, err := filepath.Glob(filepath.Join(source, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no source at %s: %v", pattern, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(content)
		}
	}
	// What kubelet and gRPC say, and what is put together from parts.
	others := map[string]bool{"not found in the list of registered CSI drivers": true, "connect nqn.": true}
	for _, s := range append(append([]sign{}, stageSigns...), createSigns...) {
		if others[s.text] || strings.HasPrefix(s.text, "code = ") || strings.HasSuffix(s.text, "=False") {
			continue
		}
		if !strings.Contains(text.String(), s.text) {
			t.Errorf("distort-csi never says %q", s.text)
		}
	}
}
