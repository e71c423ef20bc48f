package oci

import (
	"archive/tar"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// Media types of the OCI image specification 1.1.
const (
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// Annotations that importers name an image by.
const (
	annotationName = "io.containerd.image.name"
	annotationTag  = "org.opencontainers.image.ref.name"
)

// Image is an image for Linux.
type Image struct {
	// Architecture is that of its programs, as Go calls it; empty means amd64.
	Architecture string
	// Reference is its full name, registry and tag included.
	Reference string
	// Layers are stacked, the first at the bottom.
	Layers []Layer
	// Entrypoint is the program and its first arguments.
	Entrypoint []string
	// User is "uid" or "uid:gid"; empty means root.
	User string
	// Env is "NAME=value".
	Env []string
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *platform         `json:"platform,omitempty"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        *descriptor  `json:"config,omitempty"`
	Layers        []descriptor `json:"layers,omitempty"`
	Manifests     []descriptor `json:"manifests,omitempty"`
}

type runConfig struct {
	Entrypoint []string `json:"Entrypoint,omitempty"`
	Env        []string `json:"Env,omitempty"`
	User       string   `json:"User,omitempty"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type imageConfig struct {
	platform
	Config runConfig `json:"config"`
	RootFS rootFS    `json:"rootfs"`
}

// Write writes the image to a tar file and returns its digest, that of the
// manifest.
func Write(file string, image Image) (string, error) {
	digest, err := write(file, image)
	if err != nil {
		return "", fmt.Errorf("write image %s: %w", image.Reference, err)
	}
	return digest, nil
}

func write(file string, image Image) (string, error) {
	config := imageConfig{
		platform: platform{Architecture: cmp.Or(image.Architecture, "amd64"), OS: "linux"},
		Config:   runConfig{Entrypoint: image.Entrypoint, Env: image.Env, User: image.User},
		RootFS:   rootFS{Type: "layers", DiffIDs: []string{}},
	}
	layers := []descriptor{}
	for _, layer := range image.Layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, layer.Digest)
		layers = append(layers, descriptor{MediaType: mediaLayer, Digest: layer.Digest, Size: layer.Size})
	}
	configBlob, configRef, err := blob(mediaConfig, config)
	if err != nil {
		return "", err
	}
	manifestBlob, manifestRef, err := blob(mediaManifest, manifest{SchemaVersion: 2, MediaType: mediaManifest, Config: &configRef, Layers: layers})
	if err != nil {
		return "", err
	}
	manifestRef.Platform = &config.platform
	manifestRef.Annotations = map[string]string{
		annotationName: image.Reference,
		annotationTag:  image.Reference[strings.LastIndex(image.Reference, ":")+1:],
	}
	indexBlob, _, err := blob(mediaIndex, manifest{SchemaVersion: 2, MediaType: mediaIndex, Manifests: []descriptor{manifestRef}})
	if err != nil {
		return "", err
	}
	out, err := os.Create(file)
	if err != nil {
		return "", err
	}
	defer out.Close()
	archive := tar.NewWriter(out)
	for _, part := range []struct {
		name string
		data []byte
	}{
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{"index.json", indexBlob},
		{blobPath(configRef.Digest), configBlob},
		{blobPath(manifestRef.Digest), manifestBlob},
	} {
		if err := writeEntry(archive, Entry{Path: part.name, Mode: 0o644, Content: string(part.data)}); err != nil {
			return "", err
		}
	}
	for _, layer := range image.Layers {
		if err := writeEntry(archive, Entry{Path: blobPath(layer.Digest), Mode: 0o644, Source: layer.Path}); err != nil {
			return "", err
		}
	}
	if err := archive.Close(); err != nil {
		return "", err
	}
	return manifestRef.Digest, out.Close()
}

// Digest returns the manifest's digest of an image written by Write.
func Digest(file string) (string, error) {
	in, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("read image: %w", err)
	}
	defer in.Close()
	archive := tar.NewReader(in)
	for {
		header, err := archive.Next()
		if err != nil {
			return "", fmt.Errorf("read image %s: no index.json: %w", file, err)
		}
		if header.Name != "index.json" {
			continue
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			return "", fmt.Errorf("read image %s: %w", file, err)
		}
		var index manifest
		if err := json.Unmarshal(data, &index); err != nil {
			return "", fmt.Errorf("read image %s: %w", file, err)
		}
		if len(index.Manifests) != 1 {
			return "", fmt.Errorf("read image %s: %d manifests in its index, want 1", file, len(index.Manifests))
		}
		return index.Manifests[0].Digest, nil
	}
}

func blob(mediaType string, value any) ([]byte, descriptor, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, descriptor{}, err
	}
	sum := sha256.Sum256(data)
	return data, descriptor{MediaType: mediaType, Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: int64(len(data))}, nil
}

func blobPath(digest string) string {
	algorithm, sum, _ := strings.Cut(digest, ":")
	return "blobs/" + algorithm + "/" + sum
}
