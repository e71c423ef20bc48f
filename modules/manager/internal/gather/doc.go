// Package gather reads what package explain judges by, with the rights of
// whoever asks and with reads alone. What is forbidden is noted in the snapshot;
// any other failure of the API server ends the gathering.
package gather
