// Package volume is what the reconcilers of partitions and of attachments share:
// where the slice of a volume is on this node, which hosts may reach it, and the
// one way in which its export is changed. Both reconcilers change the same
// export, so both go through Exporter, which holds the volume's lock and reads
// the cache inside it.
package volume
