import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A certificate authority of a test, in a folder of its own, and a certificate of a server that it has signed. */
export type TestCertificates = {
  folder: string;
  /** Files in PEM. */
  caFile: string;
  certFile: string;
  keyFile: string;
  /** Certificate and key in one file, as HAProxy wants them. */
  chainAndKeyFile: string;
  close(): Promise<void>;
};

/** Makes them. @param names of the server, as `IP:10.0.0.1` or `DNS:localhost` */
export async function makeCertificates(...names: string[]): Promise<TestCertificates> {
  const folder = await mkdtemp(join(tmpdir(), 'partyline-certificates-'));
  const file = (name: string) => join(folder, name);
  const [caFile, caKey] = [file('ca.pem'), file('ca.key')];
  const [certFile, keyFile, request] = [file('cert.pem'), file('key.pem'), file('request.pem')];
  const openssl = (...words: string[]) => execFileSync('openssl', words, { stdio: 'pipe' });
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const ca = ['-addext', 'basicConstraints=critical,CA:TRUE', '-days', '2'];
  openssl('req', '-x509', ...key, '-subj', '/CN=Test CA', ...ca, '-keyout', caKey, '-out', caFile);
  openssl('req', ...key, '-subj', '/CN=server', '-keyout', keyFile, '-out', request);
  const extensions = file('extensions');
  await writeFile(extensions, `subjectAltName=${names.join(',')}\nextendedKeyUsage=serverAuth\n`);
  const signing = ['-CA', caFile, '-CAkey', caKey, '-CAcreateserial', '-days', '2'];
  openssl('x509', '-req', '-in', request, ...signing, '-extfile', extensions, '-out', certFile);
  const chainAndKeyFile = file('chain-and-key.pem');
  await writeFile(chainAndKeyFile, [await readFile(certFile), await readFile(keyFile)].join(''));
  const close = () => rm(folder, { recursive: true, force: true });
  return { folder, caFile, certFile, keyFile, chainAndKeyFile, close };
}
