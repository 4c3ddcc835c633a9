package main

import (
	"bytes"
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/jobstest"
	"github.com/seed81422ce9/jobs/middleware/payload"
)

// picture returns a picture whose file has a byte for each pixel.
func picture(t *testing.T, width, height int) []byte {
	t.Helper()
	var file bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.NoCompression}
	if err := encoder.Encode(&file, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func TestResize_ALargePictureIsNotInTheStoreOfJobs(t *testing.T) {
	t.Parallel()
	b, to := jobstest.New(t), t.TempDir()
	blobs, err := payload.OpenFileBlobs(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer blobs.Close()
	data := picture(t, 1200, 900)
	c := client(b, blobs)
	task := jobs.NewTask("image:resize", data, jobs.WithQueue(queue), jobs.WithHeader("file", "../../large.png"))
	if _, err := c.Enqueue(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	stored := jobstest.Enqueued(t, b, jobstest.Raw("image:resize"))
	if stored.PayloadRef == "" || len(stored.Payload) > 0 || len(data) < 1_000_000 {
		t.Errorf("the job of a picture of %d bytes holds %d bytes and the reference %q; want a reference alone",
			len(data), len(stored.Payload), stored.PayloadRef)
	}
	b.DeliverTwice(1) // the worker dies after it has written the thumbnail
	report := jobstest.Drain(t, b, handlers(blobs, to), jobstest.Everything())
	f, err := os.Open(filepath.Join(to, "large.png")) // no name leads out of the directory
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	small, _, err := image.Decode(f)
	if err != nil || small.Bounds().Dx() != 200 || small.Bounds().Dy() != 150 || report.Completed != 1 {
		t.Errorf("the thumbnail is %v, %v, after %+v; want 200 by 150", small.Bounds(), err, report)
	}
	if left, err := os.ReadDir(to); err != nil || len(left) != 1 {
		t.Errorf("%v, %v are left; want the thumbnail alone", left, err)
	}
}

func TestRun_MakesThumbnailsOfADirectory(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	var photo bytes.Buffer
	if err := jpeg.Encode(&photo, image.NewGray(image.Rect(0, 0, 600, 600)), nil); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"wide.png": picture(t, 400, 100), "tiny.png": picture(t, 3, 2),
		"photo.JPG": photo.Bytes(), "broken.gif": []byte("no picture"), "notes.txt": []byte("not meant as one")} {
		if err := os.WriteFile(filepath.Join(from, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{from, to}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"wide.png: 200 by 50\n", "tiny.png: 3 by 2\n", "photo.png: 200 by 200\n", "the job is dead"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it printed %q, without %q", &out, want)
		}
	}
	if lines := strings.Count(out.String(), "\n"); lines != 4 {
		t.Errorf("it printed %d lines, of four pictures and a text:\n%s", lines, &out)
	}
}
