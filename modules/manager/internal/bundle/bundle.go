package bundle

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/manager/internal/explain"
	"github.com/distort-io/distort/modules/manager/internal/gather"
)

// How much of a container's log is packed: its last lines, and of those no more
// than so many bytes.
const (
	maxLines = 20_000
	maxBytes = 16 << 20
)

// Options are what a bundle needs; all are required.
type Options struct {
	// Reader reads from the API server, as the user.
	Reader client.Reader
	// Logs opens the log of a container.
	Logs func(ctx context.Context, namespace, pod string, options *corev1.PodLogOptions) (io.ReadCloser, error)
	// Namespace is the driver's.
	Namespace string
	// Now is time.Now outside tests.
	Now func() time.Time
	// Version is what made the bundle.
	Version string
}

// Manifest is what is in a bundle and what is not.
type Manifest struct {
	Version   string    `json:"version"`
	Time      time.Time `json:"time"`
	Namespace string    `json:"namespace"`
	Files     []string  `json:"files"`
	// Missing says what could not be read.
	Missing []string `json:"missing,omitempty"`
}

// Write packs a bundle. What cannot be read is missing from it, and its manifest
// says so; an error means that there is no bundle.
func Write(ctx context.Context, w io.Writer, o Options) (Manifest, error) {
	p := &packer{Options: o, archive: newArchive(w, o.Now())}
	p.verdicts(ctx)
	p.collect(ctx)
	p.logs(ctx)
	m := Manifest{Version: o.Version, Time: o.Now().UTC(), Namespace: o.Namespace, Files: p.archive.names, Missing: p.missing}
	p.archive.json("manifest.json", m)
	if err := ctx.Err(); err != nil {
		return m, err
	}
	return m, p.archive.close()
}

type packer struct {
	Options
	archive *archive
	missing []string
	// volumes and pods are what events are packed about.
	volumes map[string]bool
	pods    []corev1.Pod
}

func (p *packer) lacks(what string, err error) {
	p.missing = append(p.missing, fmt.Sprintf("%s: %v", what, err))
}

// verdicts packs what explain says of every volume.
func (p *packer) verdicts(ctx context.Context) {
	g := &gather.Gatherer{Reader: p.Reader, Namespace: p.Namespace, Now: p.Now}
	snapshots, err := g.All(ctx, "")
	if err != nil {
		p.lacks("explain", err)
		return
	}
	verdicts := make([]explain.Verdict, 0, len(snapshots))
	for _, s := range snapshots {
		verdicts = append(verdicts, explain.Explain(s))
	}
	explain.Sort(verdicts)
	p.archive.json("explain.json", map[string]any{"verdicts": verdicts})
}

// logs packs what the driver's pods said, also before their last restart.
func (p *packer) logs(ctx context.Context) {
	for i := range p.pods {
		pod := &p.pods[i]
		if pod.Labels[explain.NameLabel] != explain.NameValue {
			continue
		}
		for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			p.log(ctx, pod, status.Name, false)
			if status.RestartCount > 0 {
				p.log(ctx, pod, status.Name, true)
			}
		}
	}
}

func (p *packer) log(ctx context.Context, pod *corev1.Pod, container string, previous bool) {
	name := "logs/" + pod.Name + "/" + container + ".log"
	if previous {
		name = "logs/" + pod.Name + "/" + container + ".previous.log"
	}
	lines, limit := int64(maxLines), int64(maxBytes)
	stream, err := p.Logs(ctx, pod.Namespace, pod.Name, &corev1.PodLogOptions{
		Container: container, Previous: previous, Timestamps: true, LimitBytes: &limit, TailLines: &lines,
	})
	if err != nil {
		p.lacks(name, err)
		return
	}
	content, err := io.ReadAll(stream)
	if closeErr := stream.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		p.lacks(name, err)
	}
	p.archive.text(name, string(content))
}
