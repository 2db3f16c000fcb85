/**
 * Time for which a test waits until something is so. Only a test that fails waits as long; on a machine that is busy with other
 * things a browser alone may need half a minute for what takes it a second otherwise.
 */
export const SETTLING = { timeout: 60_000, interval: 100 };
