package oci

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// contents returns the files of a tar, and a line for each entry.
func contents(t *testing.T, path string) (files map[string][]byte, lines []string) {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	files = map[string][]byte{}
	for archive := tar.NewReader(in); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, lines
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = data
		lines = append(lines, fmt.Sprintf("%s %o %s %d", header.Name, header.Mode, header.Linkname, header.ModTime.Unix()))
	}
}

func TestLayerHasParentsOrderAndNoTimes(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte("code"), 0o600); err != nil {
		t.Fatal(err)
	}
	layer, err := BuildLayer(filepath.Join(dir, "layer.tar"), []Entry{
		{Path: "/usr/bin/tool", Source: source}, {Path: "bin", Link: "usr/bin"}, {Path: "/etc/passwd", Mode: 0o644, Content: "root"}, {Path: "/tmp/", Dir: true, Mode: 0o1777},
	})
	if err != nil {
		t.Fatal(err)
	}
	files, lines := contents(t, layer.Path)
	want := []string{
		"bin 777 usr/bin 0", "etc/ 755  0", "etc/passwd 644  0", "tmp/ 1777  0", "usr/ 755  0", "usr/bin/ 755  0", "usr/bin/tool 755  0",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if string(files["usr/bin/tool"]) != "code" || string(files["etc/passwd"]) != "root" {
		t.Errorf("contents are wrong: %q", files)
	}
}

func TestImageRefersToItsBlobsByDigest(t *testing.T) {
	dir := t.TempDir()
	layer, err := BuildLayer(filepath.Join(dir, "layer.tar"), []Entry{{Path: "/x", Content: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	image := Image{Reference: "distort.local/x:dev", Layers: []Layer{layer}, Entrypoint: []string{"/x"}, User: "65532"}
	path := filepath.Join(dir, "image.tar")
	digest, err := Write(path, image)
	if err != nil {
		t.Fatal(err)
	}
	files, _ := contents(t, path)
	for name, data := range files {
		hash := sha256.Sum256(data)
		if filepath.Dir(name) == "blobs/sha256" && filepath.Base(name) != hex.EncodeToString(hash[:]) {
			t.Errorf("blob %s does not have that hash", name)
		}
	}
	var index, got manifest
	var config imageConfig
	for _, item := range []struct {
		name  string
		value any
	}{{"index.json", &index}, {blobPath(digest), &got}} {
		if err := json.Unmarshal(files[item.name], item.value); err != nil {
			t.Fatalf("%s: %v", item.name, err)
		}
	}
	if err := json.Unmarshal(files[blobPath(got.Config.Digest)], &config); err != nil {
		t.Fatal(err)
	}
	if index.Manifests[0].Digest != digest || index.Manifests[0].Annotations[annotationName] != image.Reference || index.Manifests[0].Annotations[annotationTag] != "dev" {
		t.Errorf("index names another image: %+v", index.Manifests[0])
	}
	want := imageConfig{
		platform: platform{Architecture: "amd64", OS: "linux"},
		Config:   runConfig{Entrypoint: []string{"/x"}, User: "65532"},
		RootFS:   rootFS{Type: "layers", DiffIDs: []string{layer.Digest}},
	}
	if diff := cmp.Diff(want, config, cmp.AllowUnexported(imageConfig{})); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	if read, err := Digest(path); err != nil || read != digest {
		t.Errorf("digest read back is %q (%v), want %q", read, err, digest)
	}
	if again, err := Write(filepath.Join(dir, "again.tar"), image); err != nil || again != digest {
		t.Errorf("second writing gives digest %q (%v), want %q", again, err, digest)
	}
}
