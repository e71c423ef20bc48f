// Package filesystem looks at block devices, makes filesystems on them, mounts
// them, lets them grow and says how full they are.
//
// It never decides to format; package formatonce does. A device is blank only
// when blkid knows nothing on it *and* the first, middle and last MiB were read
// and are zero: blkid's exit code 2 also means "could not read" (known fault
// ST16).
//
// What is mounted is read from mountinfo, before and after each call, so that a
// repeated call adds no mount (BM1, BM2) and a path on a dead filesystem is
// never looked at to find out (ST22).
package filesystem
