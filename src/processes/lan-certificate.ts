import { createPrivateKey, KeyObject, X509Certificate } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { giveToOwner, openDataDir } from '../store/data-dir.ts';

/** Files with a certificate and its private key, PEM. */
export type CertificateFiles = { certFile: string; keyFile: string };

const DAY_MS = 86_400_000;
/** Longest validity that Apple's systems accept of a certificate that a person has installed, days. */
const VALID_DAYS = 825;
/** Time before its expiry at which a certificate is replaced, days: a gateway may run for weeks. */
const RENEWED_BEFORE_DAYS = 30;
/** Time before now from which a certificate is valid, days: a phone's clock may be behind. */
const VALID_BEFORE_DAYS = 1;
const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };

/**
 * Returns the certificate of this gateway in its data folder. It makes one if there is none, if it expires soon, or
 * if it is not valid yet because the clock was ahead. It is kept when the machine's addresses change, because each
 * browser that accepted it would ask again.
 * @param names addresses and host names for a new certificate
 * @throws {Error} naming DATA_DIR, if the folder cannot be used
 */
export async function keepCertificate(
  dataDir: string,
  names: string[],
  wallMs = Date.now(),
): Promise<CertificateFiles> {
  const files = { certFile: join(dataDir, 'lan-cert.pem'), keyFile: join(dataDir, 'lan-key.pem') };
  await openDataDir(dataDir);
  if (await isUsable(files, wallMs)) return files;
  const { cert, key } = await makeCertificate(names, wallMs);
  await writeOwn(files.keyFile, key);
  await writeOwn(files.certFile, cert);
  return files;
}

async function isUsable({ certFile, keyFile }: CertificateFiles, wallMs: number): Promise<boolean> {
  try {
    const cert = new X509Certificate(await readFile(certFile));
    const key = createPrivateKey(await readFile(keyFile));
    const [beginsMs, expiresMs] = [Date.parse(cert.validFrom), Date.parse(cert.validTo)];
    const isValid = beginsMs <= wallMs && expiresMs - wallMs > RENEWED_BEFORE_DAYS * DAY_MS;
    return isValid && cert.checkPrivateKey(key);
  } catch {
    // Missing, or written only in part: it is made again.
    return false;
  }
}

/** Makes a certificate for a server, signed with its own key. */
async function makeCertificate(names: string[], wallMs: number) {
  // Loaded only here: it takes 0.1 s, for which no other start should wait.
  const x509 = await import('@peculiar/x509');
  const keys = await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
  const alternatives = names.map((name) => ({
    type: isIP(name) === 0 ? ('dns' as const) : ('ip' as const),
    value: name,
  }));
  const cert = await x509.X509CertificateGenerator.createSelfSigned({
    name: 'CN=Partyline',
    notBefore: new Date(wallMs - VALID_BEFORE_DAYS * DAY_MS),
    notAfter: new Date(wallMs + (VALID_DAYS - VALID_BEFORE_DAYS) * DAY_MS),
    signingAlgorithm: ALGORITHM,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      new x509.SubjectAlternativeNameExtension(alternatives),
    ],
  });
  const key = KeyObject.from(keys.privateKey).export({ type: 'pkcs8', format: 'pem' });
  return { cert: `${cert.toString('pem')}\n`, key };
}

/** Writes a file that only the owner of its folder can read, whole or not at all. */
async function writeOwn(path: string, content: string | Buffer): Promise<void> {
  const temporary = `${path}.tmp`;
  await writeFile(temporary, content, { mode: 0o600 });
  await giveToOwner(temporary);
  await rename(temporary, path);
}
