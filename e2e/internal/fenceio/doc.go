// Package fenceio writes and reads the blocks by which the fence suite tells who
// wrote what. The device's first Slots blocks are slots; each holds the last
// record that was written there, by which writer and with which number. It runs
// inside guests, as cmd/fenceio.
package fenceio
