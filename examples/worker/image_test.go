package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs"
)

// picture returns a PNG of one colour.
func picture(t *testing.T, width, height int) []byte {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	for i := range img.Pix {
		img.Pix[i] = 255
	}
	for y := range height {
		for x := range width {
			img.Set(x, y, color.RGBA{200, 30, 30, 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// images returns a directory with these files, and its resizer.
func images(t *testing.T, files map[string][]byte) (string, *resizer) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := newResizer(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.root.Close() })
	return dir, r
}

func TestImage_ImagesAreMadeToFitInTheirProportions(t *testing.T) {
	t.Parallel()
	dir, r := images(t, map[string][]byte{"wide.png": picture(t, 400, 100)})
	for _, c := range []struct {
		target                string
		width, height         int
		wantWidth, wantHeight int
		format                string
	}{
		{"out/half.png", 200, 200, 200, 50, "png"},
		{"out/low.jpg", 400, 20, 80, 20, "jpeg"},
		{"same.png", 9000, 9000, 400, 100, "png"}, // never enlarged
		{"thin.png", 1, 1, 1, 1, "png"},
	} {
		if err := r.resize(t.Context(), Resize{"wide.png", c.target, c.width, c.height}, nil); err != nil {
			t.Errorf("%s: %v", c.target, err)
			continue
		}
		f, err := os.Open(filepath.Join(dir, c.target))
		if err != nil {
			t.Fatal(err)
		}
		img, format, err := image.Decode(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got := img.Bounds(); got.Dx() != c.wantWidth || got.Dy() != c.wantHeight || format != c.format {
			t.Errorf("%s is a %s of %v, want a %s of %d by %d", c.target, format, got, c.format, c.wantWidth, c.wantHeight)
		}
		if red, green, _, _ := img.At(0, 0).RGBA(); red>>8 < 190 || green>>8 > 40 {
			t.Errorf("%s lost its colour", c.target)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", "*.part")); len(left) > 0 {
		t.Errorf("temporary files are left over: %v", left)
	}
}

// bomb returns the header of a PNG that claims to have 100,000 by 100,000 pixels.
func bomb(t *testing.T) []byte {
	p := picture(t, 1, 1)
	binary.BigEndian.PutUint32(p[16:], 100_000)
	binary.BigEndian.PutUint32(p[20:], 100_000)
	binary.BigEndian.PutUint32(p[29:], crc32.ChecksumIEEE(p[12:29]))
	return p
}

func TestImage_WhatCanNeverBeResizedIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	whole := picture(t, 100, 100)
	_, r := images(t, map[string][]byte{"text.png": []byte("not an image"), "half.png": whole[:len(whole)/2], "bomb.png": bomb(t),
		"good.png": whole})
	for _, c := range []struct {
		name string
		task Resize
		says string
	}{
		{"not an image", Resize{"text.png", "out.png", 10, 10}, "not an image"},
		{"half an image", Resize{"half.png", "out.png", 10, 10}, "broken"},
		{"an image that would fill the memory", Resize{"bomb.png", "out.png", 10, 10}, "100000 by 100000 pixels"},
		{"another format", Resize{"good.png", "out.tiff", 10, 10}, ".png"},
		{"no size", Resize{"good.png", "out.png", 0, 10}, "1 or more"},
		{"a source outside", Resize{"../good.png", "out.png", 10, 10}, "below the directory"},
		{"a target outside", Resize{"good.png", "/tmp/out.png", 10, 10}, "below the directory"},
	} {
		if err := r.resize(t.Context(), c.task, nil); !errors.Is(err, jobs.SkipRetry) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want SkipRetry and %q", c.name, err, c.says)
		}
	}
}

func TestImage_LinksLeadToNoFileOutside(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret.png"), picture(t, 10, 10), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, r := images(t, map[string][]byte{"good.png": picture(t, 10, 10)})
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := r.resize(t.Context(), Resize{"link/secret.png", "out.png", 5, 5}, nil); err == nil {
		t.Error("a source outside of the directory was read")
	}
	if err := r.resize(t.Context(), Resize{"good.png", "link/out.png", 5, 5}, nil); err == nil {
		t.Error("a target outside of the directory was written")
	}
}

func TestImage_AnImageThatIsNotThereYetIsTriedAgain(t *testing.T) {
	t.Parallel()
	_, r := images(t, nil)
	if err := r.resize(t.Context(), Resize{"late.png", "out.png", 5, 5}, nil); err == nil || errors.Is(err, jobs.SkipRetry) {
		t.Errorf("the error is %v, want one to try again", err)
	}
}

func TestImage_AResizeThatIsCancelledLeavesNothing(t *testing.T) {
	t.Parallel()
	dir, r := images(t, map[string][]byte{"good.png": picture(t, 10, 10)})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(jobs.ErrCancelled)
	if err := r.resize(ctx, Resize{"good.png", "out.png", 5, 5}, nil); !errors.Is(err, jobs.ErrCancelled) {
		t.Errorf("the error is %v, want the reason of its end", err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "out*")); len(files) > 0 {
		t.Errorf("it left %v", files)
	}
}
