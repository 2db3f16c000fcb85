/** True if a browser hides which audio devices there are, because the page may not use them now. */
export function areHidden(devices: readonly MediaDeviceInfo[]): boolean {
  // It hides the ids of all of them, or none.
  return devices.find(({ kind }) => kind !== 'videoinput')?.deviceId === '';
}

/** Returns names for a menu of devices: their labels, with a number if several are the same, or numbers if they have none. */
export function deviceNames(labels: readonly string[]): string[] {
  return labels.map((label, i) => {
    if (label === '') return String(i + 1);
    if (labels.indexOf(label) === labels.lastIndexOf(label)) return label;
    const before = labels.slice(0, i).filter((other) => other === label);
    return `${label} (${before.length + 1})`;
  });
}
