#!/bin/sh
# Brings a Chromium where there is none. Only a system with apt and root can be helped; others are told what to do.
set -eu
for name in chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null; then exit 0; fi
done
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
  apt-get -o DPkg::Lock::Timeout=600 update -qq
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -qq -y --no-install-recommends chromium
else
  echo 'There is no Chromium on PATH. Install one, such as with "sudo apt-get install chromium", and try again.' >&2
  exit 1
fi
