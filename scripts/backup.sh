#!/bin/sh
# Backs up the Redis of a gateway while it runs, and restores it. Needs redis-cli, flock of util-linux, and tar and coreutils of GNU.
#   scripts/backup.sh save REDIS FOLDER ARCHIVE     REDIS: redis://…, unix://… or the path of a socket (data/redis.sock)
#   scripts/backup.sh restore ARCHIVE FOLDER        while that Redis does not run
# FOLDER is where Redis has its appendonlydir: DATA_DIR, if Redis is the gateway's own. The archive holds the keys that sign tokens.
set -eu
umask 077

usage() {
  sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

# Ends with Redis's own words if a command fails: its answer would look like a value. The address may hold a password.
redis() {
  answer=$(redis-cli -e "$option" "$address" "$@") || { echo "backup: $*: $answer" >&2; exit 1; }
  printf '%s\n' "$answer"
}

await_rewrite() {
  while redis INFO persistence | grep -q 'aof_rewrite_\(in_progress\|scheduled\):1'; do
    sleep 1
  done
}

# The manifest names the files of the last rewrite, whose numbers grow.
read_manifest() {
  cat "$folder"/appendonlydir/*.manifest 2> /dev/null || :
}

# Ends unless an archive holds a manifest, and the files that it names (h: a former file, which Redis does not read and may delete).
check_archive() {
  files=$(tar -tzf "$1" 2> /dev/null) || files=
  manifests=$(printf '%s\n' "$files" | grep '^appendonlydir/.*\.manifest$') ||
    { echo "backup: $1 is not a backup" >&2; exit 1; }
  for manifest in $manifests; do
    for name in $(tar -xzOf "$1" "$manifest" | sed -n 's/^file \([^ ]*\) seq [0-9]* type [bi].*/\1/p'); do
      printf '%s\n' "$files" | grep -Fqx "appendonlydir/$name" ||
        { echo "backup: $1 is not whole: it has no appendonlydir/$name" >&2; exit 1; }
    done
  done
}

save() {
  folder=$2 archive=$3
  address=$1
  case $address in
    *+sentinel:*) echo 'backup: give the address of a server (redis://…), not of its sentinels' >&2; exit 1 ;;
    unix://*) option=-s address=${address#unix://} ;;
    *://*) option=-u ;;
    *) option=-s ;;
  esac
  [ -d "$folder/appendonlydir" ] || { echo "backup: there is no $folder/appendonlydir (is appendonly on?)" >&2; exit 1; }
  # Two at a time would rewrite the file under each other's copy. The kernel releases the lock, however this script ends.
  command -v flock > /dev/null || { echo 'backup: flock is missing (util-linux)' >&2; exit 1; }
  exec 9< "$folder/appendonlydir"
  flock -n 9 || { echo "backup: another backup of $folder is running" >&2; exit 1; }
  # A rewrite would delete files while they are copied.
  percentage=$(redis CONFIG GET auto-aof-rewrite-percentage | tail -n 1)
  # 0 is what a backup that was killed has left; 100 is what Redis has without a setting.
  [ "$percentage" != 0 ] || percentage=100
  # A disk that the archive has filled must not stay full: Redis needs room on it, too.
  trap 'rm -f "$archive.part" || :; redis CONFIG SET auto-aof-rewrite-percentage "$percentage" > /dev/null' EXIT
  # Not every shell runs that when a signal ends it.
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  redis CONFIG SET auto-aof-rewrite-percentage 0 > /dev/null
  # Redis refuses a second rewrite while it is at one.
  await_rewrite
  before=$(read_manifest)
  redis BGREWRITEAOF > /dev/null
  await_rewrite
  redis INFO persistence | grep -q 'aof_last_bgrewrite_status:ok' ||
    { echo 'backup: Redis could not rewrite its file' >&2; exit 1; }
  written=$(read_manifest)
  [ "$written" != "$before" ] ||
    { echo "backup: $folder/appendonlydir is not that of this Redis, which has written elsewhere (CONFIG GET dir)" >&2; exit 1; }
  key=
  [ ! -e "$folder/demo-key" ] || key=demo-key
  # Redis appends to the last file meanwhile (1 is for that); what is cut at its end is left out when it is loaded.
  tar --warning=no-file-changed -czf "$archive.part" -C "$folder" appendonlydir $key || [ $? -eq 1 ]
  [ "$(read_manifest)" = "$written" ] ||
    { echo 'backup: Redis has rewritten its file while it was saved (BGREWRITEAOF): save it again' >&2; exit 1; }
  check_archive "$archive.part"
  mv "$archive.part" "$archive"
  echo "backup: $archive"
}

restore() {
  archive=$1 folder=$2
  check_archive "$archive"
  # One that is made here would belong to root, and Redis could not read it.
  [ -d "$folder" ] || { echo "backup: there is no folder $folder: make it, for the user that Redis runs as" >&2; exit 1; }
  if [ -e "$folder/appendonlydir" ]; then
    echo "backup: $folder/appendonlydir is there: stop that Redis, and move the folder away" >&2
    exit 1
  fi
  tar --no-same-owner -xzf "$archive" -C "$folder"
  # The files belong to the user of the folder, which is the one that Redis runs as.
  chown -R --reference="$folder" "$folder/appendonlydir"
  [ ! -e "$folder/demo-key" ] || chown --reference="$folder" "$folder/demo-key"
  echo "backup: restored into $folder; the files belong to $(stat -c %U "$folder"): Redis must run as that user"
  echo "backup: start Redis with \"appendonly yes\" in its settings (without it, Redis begins empty)"
}

command=${1-}
[ $# -eq 0 ] || shift
case $command-$# in
  save-3) save "$@" ;;
  restore-2) restore "$@" ;;
  *) usage ;;
esac
