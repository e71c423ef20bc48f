package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/distort-io/distort/modules/manager/internal/bundle"
)

func newBundle(o *options) *cobra.Command {
	var file string
	command := &cobra.Command{
		Use:   "support-bundle",
		Short: "Pack objects, events and logs into one archive, without secrets",
		Long: `Pack DISTORT's objects, its claims, volumes and attachments, events, the verdict
on every volume, and the logs of DISTORT's pods into one tar.gz. No Secret is read,
and whatever looks like a secret is taken out.`,
		Args: none,
	}
	command.Flags().StringVarP(&file, "file", "f", "", "file to write, - for standard output (default distort-support-<time>.tar.gz)")
	command.RunE = func(command *cobra.Command, _ []string) error {
		s, err := o.connect()
		if err != nil {
			return err
		}
		set, err := s.clientset()
		if err != nil {
			return err
		}
		now := s.gatherer.Now
		b := bundle.Options{
			Reader: s.gatherer.Reader, Namespace: s.gatherer.Namespace, Now: now, Version: version(),
			Logs: func(ctx context.Context, namespace, pod string, options *corev1.PodLogOptions) (io.ReadCloser, error) {
				return set.CoreV1().Pods(namespace).GetLogs(pod, options).Stream(ctx)
			},
		}
		if file == "" {
			file = "distort-support-" + now().UTC().Format("20060102-150405") + ".tar.gz"
		}
		manifest, err := writeBundle(command.Context(), command.OutOrStdout(), file, b)
		if err != nil {
			return err
		}
		p := newPrinter(command.ErrOrStderr())
		for _, missing := range manifest.Missing {
			p.printf("not readable: %s\n", missing)
		}
		p.printf("%d files packed into %s\n", len(manifest.Files), file)
		return nil
	}
	return command
}

// writeBundle writes the bundle to a file that only its owner reads, or to
// standard output. A file that is not complete is removed.
func writeBundle(ctx context.Context, stdout io.Writer, file string, b bundle.Options) (bundle.Manifest, error) {
	if file == "-" {
		return bundle.Write(ctx, stdout, b)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return bundle.Manifest{}, fmt.Errorf("make the archive: %w", err)
	}
	manifest, err := bundle.Write(ctx, f, b)
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, os.Remove(file))
	}
	return manifest, err
}
